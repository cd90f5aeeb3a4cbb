"""
Throttle policies in the API: their limits for each host and for all hosts together, and the effects of a change of
them.
"""

from typing import Any, Final

from django.db.models import OuterRef, Prefetch, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.serializers import StrictModelSerializer
from jobs.checks.policies import RuleWanted
from jobs.lifecycle.limits import LIMITS
from jobs.lifecycle.period import Period
from jobs.models import ThrottlePolicy, ThrottleRule
from jobs.queries.rehearsals.policies import Counted, HostChange, Preview, Reach
from jobs.throttling.limits import UNLIMITED_REQUESTS, Limits
from jobs.throttling.windows import EVERY_DAY
from jobs.verbs import policies
from jobs.verbs.policies import EVERYWHERE
from nodes.api.base import created
from nodes.api.paging import ListingView
from nodes.api.strict import NamedQuery, StrictSerializer
from nodes.database.clock import read_clock

_ID: Final = "[0-9]{1,19}"
# Largest number of rules that a list shows of each policy. A policy may have two thousand.
_RULES_SHOWN: Final = 10
_FACTS: Final = (
    "name",
    *LIMITS,
    "applies_everywhere",
    "per_address",
    "skips_loopback",
    "time_zone",
)


# These fields have no bounds, because the function that stores the numbers checks them.
def _maybe(help_text: str) -> serializers.IntegerField:
    return serializers.IntegerField(allow_null=True, default=None, help_text=help_text)


def _period() -> serializers.ChoiceField:
    return serializers.ChoiceField(
        [period.value for period in Period],
        allow_blank=True,
        default="",
        help_text="Period of the starts. Empty without starts.",
    )


class UnlimitedField(serializers.BooleanField):
    """
    A field that is true if a policy does not pace its hosts. GET shows the field, so that a client can send the policy
    back.
    """

    def get_attribute(self, instance: ThrottlePolicy) -> bool:
        return policies.has_no_pace(instance)


class LimitFields(serializers.Serializer[Any]):
    """The limits of a policy or of a rule."""

    open_requests = _maybe("Simultaneous open requests to one host.")
    min_gap = serializers.FloatField(
        allow_null=True, default=None, help_text="Minimum seconds between two request starts to one host."
    )
    starts = _maybe("Maximum request starts to one host per period, evenly spread: 30 per minute means one every 2 s.")
    period = _period()
    bytes_per_second = _maybe("Maximum bytes per second from one host.")
    total_open_requests = _maybe("Maximum open requests to all hosts of the policy together.")
    total_starts = _maybe("Maximum request starts to all hosts of the policy together, per total period.")
    total_period = _period()
    total_bytes_per_second = _maybe("Maximum bytes per second from all hosts of the policy together.")


class RuleSerializer(LimitFields, StrictSerializer):
    """
    Other limits for the hosts of a pattern, on some days, at some times. A null field has the policy's value.

    The first rule that matches the host and the time applies. Only rules that match every host have totals.
    """

    pattern = serializers.CharField(
        allow_blank=True,
        default="",
        help_text=(
            "Host pattern, such as `www.example.com` or `*.example.com` (not example.com itself), with a port unless it is the usual "
            "one. If empty, all hosts match."
        ),
    )
    days = serializers.ListField(
        child=serializers.IntegerField(),
        max_length=7,
        default=list(EVERY_DAY),
        help_text="Days of the week on which the rule begins: 1 is Monday, 7 is Sunday.",
    )
    from_time = serializers.TimeField(
        allow_null=True, default=None, help_text="Start of the rule. If both times are null, it applies all day."
    )
    to_time = serializers.TimeField(
        allow_null=True,
        default=None,
        help_text="End of the rule (exclusive). A time before `from_time` is on the next day.",
    )
    denies = serializers.BooleanField(default=False, help_text="True to deny these hosts.")


class PolicySerializer(LimitFields, StrictModelSerializer):
    """Throttle policy: limits for each host that its seeds reach, and for all these hosts together."""

    ignored = frozenset({"warnings"})
    name = serializers.CharField()
    open_requests = serializers.IntegerField(default=2, help_text="Simultaneous open requests to one host.")
    min_gap = serializers.FloatField(
        required=False,
        help_text=(
            "Minimum seconds between two request starts to one host. The longer of this gap and the rate's gap applies. Default: 0 "
            "with `starts` or `unlimited`, otherwise 1."
        ),
    )
    applies_everywhere = serializers.BooleanField(
        default=False,
        help_text="True to apply the policy to every host of the cluster, and its totals to the cluster. Administrators only.",
    )
    per_address = serializers.BooleanField(
        default=False, help_text="True to apply the limits per host also to all hosts at one IP address together."
    )
    skips_loopback = serializers.BooleanField(default=False, help_text="True to skip the delay for loopback addresses.")
    time_zone = serializers.CharField(default="UTC", help_text="Time zone of the rules, such as Europe/Berlin.")
    rules: serializers.ListSerializer[Any] = serializers.ListSerializer(child=RuleSerializer(), default=list)
    unlimited = UnlimitedField(
        default=False,
        help_text="True if neither gap nor rate nor bytes should limit the hosts. Otherwise such a policy is refused.",
    )

    class Meta:
        model = ThrottlePolicy
        fields = ("id", *_FACTS, "rules", "unlimited", "version", "private_to")
        read_only_fields = ("id", "version", "private_to")

    def validate_rules(self, rules: list[dict[str, Any]]) -> list[RuleWanted]:
        # In a PATCH of a policy, each rule is complete: a missing field has the default of a new rule.
        return [RuleWanted(**{**rule, "days": tuple(rule.get("days", EVERY_DAY))}) for rule in rules]


class PolicyInListSerializer(PolicySerializer):
    """Policy in a list, with its first rules."""

    rules_in_all = serializers.IntegerField(read_only=True)
    first_rules = RuleSerializer(many=True, read_only=True)

    class Meta:
        model = ThrottlePolicy
        fields = ("id", *_FACTS, "rules_in_all", "first_rules", "version", "private_to")
        read_only_fields = fields


class PolicySavedSerializer(PolicySerializer):
    """Stored policy, with warnings about probable mistakes."""

    warnings = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = ThrottlePolicy
        fields = (*PolicySerializer.Meta.fields, "warnings")
        read_only_fields = PolicySerializer.Meta.read_only_fields


# --- Effects of a change ---------------------------------------------------------------------------


class LimitsSerializer(serializers.Serializer[Limits]):
    """Limits at this moment. Null means no limit."""

    denied = serializers.BooleanField()
    closed_until = serializers.DateTimeField(allow_null=True, help_text="End of a denial by rules with times.")
    open_requests = serializers.IntegerField(source="requests", allow_null=True)
    gap = serializers.FloatField(help_text="Seconds between two request starts.")
    bytes_per_second = serializers.FloatField(allow_null=True)

    def to_representation(self, instance: Limits) -> dict[str, Any]:
        shown: dict[str, Any] = super().to_representation(instance)
        return shown | ({"open_requests": None} if instance.requests == UNLIMITED_REQUESTS else {})


class CountedSerializer(serializers.Serializer[Counted]):
    """Number of objects, with the first few objects."""

    number = serializers.IntegerField(help_text="Number, counted up to 1,001.")
    is_more = serializers.BooleanField(help_text="True if there are more than 1,000.")
    names = serializers.ListField(child=serializers.CharField())


class HostChangeSerializer(serializers.Serializer[HostChange]):
    """
    Host with changed limits. If the limits before and after are equal, they differ at other times of the week, or one
    of them applies to the whole address of the host.
    """

    name = serializers.CharField()
    before = LimitsSerializer(allow_null=True, help_text="Limits of the policy. Null if it has none for this host.")
    after = LimitsSerializer(allow_null=True)
    in_force_before = LimitsSerializer(
        allow_null=True, help_text="Effective limits: the strictest of all limits for the host while its jobs run."
    )
    in_force_after = LimitsSerializer(allow_null=True)
    documents = serializers.IntegerField(help_text="Documents of all jobs on the host, counted up to 20,001.")
    seconds_before = serializers.FloatField(
        allow_null=True, help_text="Shortest time to read all of them now. Null without a rate, or for a denied host."
    )
    seconds_after = serializers.FloatField(allow_null=True, help_text="Shortest time with this change.")


class ReachSerializer(serializers.Serializer[Reach]):
    """Matches of a rule's pattern among the checked hosts."""

    pattern = serializers.CharField(source="rule.pattern")
    matches = serializers.SerializerMethodField(help_text="`nothing`, `something` or `everything`.")
    hosts = CountedSerializer()

    def get_matches(self, reach: Reach) -> str:
        if reach.is_everything:
            return "everything"
        return "nothing" if reach.is_nothing else "something"


class PreviewSerializer(serializers.Serializer[Preview]):
    """Preview of changed limits. Nothing was stored."""

    hosts = CountedSerializer(help_text="Number of hosts with changed limits.")
    changes = HostChangeSerializer(many=True, help_text="First of these hosts.")
    seeds = CountedSerializer(help_text="Seeds with this policy. All seeds if the policy applies everywhere.")
    rules = ReachSerializer(many=True, source="reaches")
    total_before = LimitsSerializer(allow_null=True)
    total_after = LimitsSerializer(allow_null=True)
    per_address_before = serializers.BooleanField()
    per_address_after = serializers.BooleanField()
    examined = serializers.IntegerField(source="among", help_text="Number of checked hosts.")
    of_all_hosts = serializers.BooleanField(
        source="is_of_all_hosts",
        help_text="True if all known hosts were checked. False if only those of the policy's seeds were.",
    )
    has_more = serializers.BooleanField(help_text="True if more hosts exist than were checked.")
    warnings = serializers.ListField(child=serializers.CharField())


# --- Views -----------------------------------------------------------------------------------------


class PolicyView(mixins.RetrieveModelMixin, ListingView):
    """List throttle policies. Policies of one-shot crawls are shown only by their address."""

    permissions_needed = {
        "list": "jobs.view_throttlepolicy",
        "retrieve": "jobs.view_throttlepolicy",
        "create": "jobs.add_throttlepolicy",
        "update": "jobs.change_throttlepolicy",
        "partial_update": "jobs.change_throttlepolicy",
        "destroy": "jobs.delete_throttlepolicy",
        "preview": "jobs.add_throttlepolicy",
        "preview_change": "jobs.change_throttlepolicy",
    }
    query_class = NamedQuery
    lookup_value_regex = _ID
    tagged_by = PolicySerializer

    def get_queryset(self) -> QuerySet[ThrottlePolicy]:
        if self.action != "list":
            return ThrottlePolicy.objects.prefetch_related("rules")
        last = ThrottleRule.objects.filter(policy=OuterRef("pk")).order_by("-position").values("position")[:1]
        first = ThrottleRule.objects.filter(position__lt=_RULES_SHOWN)
        return ThrottlePolicy.objects.annotate(rules_in_all=Coalesce(Subquery(last) + 1, 0)).prefetch_related(
            Prefetch("rules", first, to_attr="first_rules")
        )

    def get_serializer_class(self) -> type[PolicySerializer]:
        return PolicyInListSerializer if self.action == "list" else PolicySerializer

    def narrowed(self, queryset: QuerySet[Any], query: dict[str, Any]) -> QuerySet[Any]:
        return queryset.filter(private_to=None)

    @extend_schema(description="Create a policy.", responses={201: PolicySavedSerializer})
    def create(self, request: Request) -> Response:
        saved = policies.create(**self._wanted(request), **_by(request))
        return created(self._shown(saved), at=reverse("api:policy-detail", args=[saved.policy.pk]), request=request)

    @extend_schema(
        description="Replace a policy. The change applies from the next turn of each host.",
        responses={200: PolicySavedSerializer},
    )
    def update(self, request: Request, pk: str) -> Response:
        return self._change(request, partial=False)

    @extend_schema(
        description="Change fields of a policy. Rules are replaced as a whole. The change applies from the next turn of each host.",
        responses={200: PolicySavedSerializer},
    )
    def partial_update(self, request: Request, pk: str) -> Response:
        return self._change(request, partial=True)

    @extend_schema(
        description="Delete a policy without seeds. Otherwise the answer is 409 and names the jobs of its seeds."
    )
    def destroy(self, request: Request, pk: str) -> Response:
        policies.delete(int(pk), **_by(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(
        operation_id="policies_preview",
        description="Preview the hosts and limits that a new policy would change. Nothing is stored.",
        responses={200: PreviewSerializer},
    )
    @action(detail=False, methods=["post"])
    def preview(self, request: Request) -> Response:
        return self._preview(request, None, self._wanted(request))

    @extend_schema(
        operation_id="policies_preview_change",
        description="Preview the hosts and limits that a change of a policy would affect. Nothing is stored. The body is that of PATCH.",
        responses={200: PreviewSerializer},
    )
    @action(detail=True, methods=["post"], url_path="preview", url_name="preview-change")
    def preview_change(self, request: Request, pk: str) -> Response:
        return self._preview(request, int(pk), self._wanted(request, self.get_object(), partial=True))

    def _change(self, request: Request, *, partial: bool) -> Response:
        stored = self.get_object()
        wanted = self._wanted(request, stored, partial=partial)
        saved = policies.change(stored.pk, **wanted, **_by(request))
        return Response(self._shown(saved))

    def _wanted(
        self, request: Request, stored: ThrottlePolicy | None = None, *, partial: bool = False
    ) -> dict[str, Any]:
        wanted = self.get_serializer(stored, data=request.data, partial=partial)
        wanted.is_valid(raise_exception=True)
        facts = dict(wanted.validated_data)
        if not partial and "min_gap" not in facts:
            facts["min_gap"] = policies.default_gap(unlimited=facts["unlimited"], starts=facts.get("starts"))
        return facts

    def _shown(self, saved: policies.PolicySaved) -> dict[str, Any]:
        return {**self.get_serializer(saved.policy).data, "warnings": saved.warnings}

    def _preview(self, request: Request, policy_id: int | None, wanted: dict[str, Any]) -> Response:
        everywhere = _may_limit_everywhere(request)
        found = policies.preview(policy_id, everywhere=everywhere, now=read_clock(), **wanted)
        return Response(PreviewSerializer(found).data)


def _by(request: Request) -> dict[str, Any]:
    return {"everywhere": _may_limit_everywhere(request), "made_by": request.user.get_username()}


def _may_limit_everywhere(request: Request) -> bool:
    return request.user.has_perm(EVERYWHERE)
