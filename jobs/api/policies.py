"""Throttle policies: limits of bins, each and together, and what a change of them would touch."""

from typing import Any, Final

from django.db.models import OuterRef, Prefetch, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import policies
from jobs.api.serializers import StrictModelSerializer
from jobs.lifecycle.period import Period
from jobs.models import ThrottlePolicy, ThrottleRule
from jobs.policies import EVERYWHERE
from jobs.policy_checks import RuleWanted
from jobs.queries.clock import read_clock
from jobs.queries.policy_preview import BinChange, Counted, Preview, Reach
from jobs.throttling.limits import UNLIMITED_REQUESTS, Limits
from jobs.throttling.windows import EVERY_DAY
from nodes.api.base import created
from nodes.api.paging import ListingView
from nodes.api.strict import NamedQuery, StrictSerializer

_ID: Final = "[0-9]{1,19}"
# Of each policy in a list; there may be two thousand.
_RULES_SHOWN: Final = 10
_FACTS: Final = (
    "name",
    "open_requests",
    "min_gap",
    "starts",
    "period",
    "bytes_per_second",
    "total_open_requests",
    "total_starts",
    "total_period",
    "total_bytes_per_second",
    "holds_everywhere",
    "per_address",
    "spares_loopback",
    "time_zone",
)


# What numbers mean, and which there can be, is decided by the function that stores them.
def _maybe(help_text: str) -> serializers.IntegerField:
    return serializers.IntegerField(allow_null=True, default=None, help_text=help_text)


def _period() -> serializers.ChoiceField:
    return serializers.ChoiceField(
        [period.value for period in Period],
        allow_blank=True,
        default="",
        help_text="Of the starts; empty without them.",
    )


class UnlimitedField(serializers.BooleanField):
    """True if a policy does not pace its bins, so that a client can send back the policy that GET shows."""

    def get_attribute(self, instance: ThrottlePolicy) -> bool:
        return policies.has_no_pace(instance)


class RuleSerializer(StrictSerializer):
    """
    Other limits for the bins of a pattern, on some days, at some times. What is null is as the policy says.

    The first rule that matches place and moment holds.
    """

    pattern = serializers.CharField(
        allow_blank=True,
        default="",
        help_text="Of names of bins: `www.example.com`, `*.example.com` (not example.com itself), with a port that is not "
        "the usual one. Empty: every bin.",
    )
    days = serializers.ListField(
        child=serializers.IntegerField(),
        max_length=7,
        default=list(EVERY_DAY),
        help_text="1 is Monday, 7 Sunday; past midnight, the days on which it begins.",
    )
    from_time = serializers.TimeField(allow_null=True, default=None, help_text="Null, both: the whole day.")
    to_time = serializers.TimeField(
        allow_null=True, default=None, help_text="Just before it the rule ends; before `from_time`: on the next day."
    )
    open_requests = _maybe("Open to one bin at the same time.")
    min_gap = serializers.FloatField(allow_null=True, default=None, help_text="Seconds between two starts to one bin.")
    starts = _maybe("To one bin, in a period.")
    period = _period()
    bytes_per_second = _maybe("From one bin.")
    total_open_requests = _maybe("To all bins of the policy together; of a rule of every bin.")
    total_starts = _maybe("To all bins of the policy together; of a rule of every bin.")
    total_period = _period()
    total_bytes_per_second = _maybe("From all bins of the policy together; of a rule of every bin.")
    denies = serializers.BooleanField(default=False, help_text="Nothing is fetched from these bins.")


class PolicySerializer(StrictModelSerializer):
    """Limits that hold for each bin that a seed of this policy reaches, and for all these bins together."""

    ignored = frozenset({"warnings"})
    name = serializers.CharField()
    open_requests = serializers.IntegerField(
        default=2, help_text="Requests that may be open to one bin at the same time."
    )
    min_gap = serializers.FloatField(
        required=False,
        help_text="Seconds between the starts of two requests to one host. The longer of this gap and of the rate holds. "
        "Without it: 0 if `starts` or `unlimited` is given, else 1.",
    )
    starts = _maybe("At most so many to one bin in a period, evenly spread: 30 a minute are one every 2 s.")
    period = _period()
    bytes_per_second = _maybe("From one bin.")
    total_open_requests = _maybe("To all bins of the policy together.")
    total_starts = _maybe("To all bins of the policy together, in their period.")
    total_period = _period()
    total_bytes_per_second = _maybe("From all bins of the policy together.")
    holds_everywhere = serializers.BooleanField(
        default=False, help_text="It limits every bin of the cluster, and its totals the cluster. For administrators."
    )
    per_address = serializers.BooleanField(
        default=False, help_text="Its limits of a bin hold for all bins at one address together, too."
    )
    spares_loopback = serializers.BooleanField(
        default=False, help_text="Loopback addresses need no gap: nobody else is there to be spared."
    )
    time_zone = serializers.CharField(default="UTC", help_text="Of the times of its rules: a name like Europe/Berlin.")
    rules: serializers.ListSerializer[Any] = serializers.ListSerializer(child=RuleSerializer(), default=list)
    unlimited = UnlimitedField(
        default=False,
        help_text="Say so where neither gap nor rate nor bytes shall limit its bins: it is refused otherwise.",
    )

    class Meta:
        model = ThrottlePolicy
        fields = ("id", *_FACTS, "rules", "unlimited", "version", "private_to")
        read_only_fields = ("id", "version", "private_to")

    def validate_rules(self, rules: list[dict[str, Any]]) -> list[RuleWanted]:
        # Where a part of the policy is changed, a rule is still given whole: what it leaves out is as in a new one.
        return [RuleWanted(**{**rule, "days": tuple(rule.get("days", EVERY_DAY))}) for rule in rules]


class PolicyInListSerializer(PolicySerializer):
    """A policy in a list: with the first of its rules, so under another name, lest they be taken for all and sent back."""

    rules_in_all = serializers.IntegerField(read_only=True)
    first_rules = RuleSerializer(many=True, read_only=True)

    class Meta:
        model = ThrottlePolicy
        fields = ("id", *_FACTS, "rules_in_all", "first_rules", "version", "private_to")
        read_only_fields = fields


class PolicySavedSerializer(PolicySerializer):
    """A policy as it was just stored, and what is legal about it and probably not meant."""

    warnings = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = ThrottlePolicy
        fields = (*PolicySerializer.Meta.fields, "warnings")
        read_only_fields = PolicySerializer.Meta.read_only_fields


# --- What a change touches -------------------------------------------------------------------------


class LimitsSerializer(serializers.Serializer[Limits]):
    """What may be asked for at this moment; null is any number."""

    denied = serializers.BooleanField()
    closed_until = serializers.DateTimeField(allow_null=True, help_text="Denied by rules with times: until then.")
    open_requests = serializers.IntegerField(source="requests", allow_null=True)
    gap = serializers.FloatField(help_text="Seconds between two starts.")
    bytes_per_second = serializers.FloatField(allow_null=True)

    def to_representation(self, instance: Limits) -> dict[str, Any]:
        shown: dict[str, Any] = super().to_representation(instance)
        return shown | ({"open_requests": None} if instance.requests == UNLIMITED_REQUESTS else {})


class CountedSerializer(serializers.Serializer[Counted]):
    """How many there are, and the first of them."""

    number = serializers.IntegerField(help_text="Counted up to 1,001.")
    is_more = serializers.BooleanField(help_text="More than 1,000: nobody counted on.")
    names = serializers.ListField(child=serializers.CharField())


class BinChangeSerializer(serializers.Serializer[BinChange]):
    """One bin for which something changes: now; or, where both are the same, at other times or for its address."""

    name = serializers.CharField()
    before = LimitsSerializer(allow_null=True, help_text="null: the policy says nothing of it.")
    after = LimitsSerializer(allow_null=True)
    in_force_before = LimitsSerializer(
        allow_null=True, help_text="The strictest of that and of all else that limits the bin while its jobs run."
    )
    in_force_after = LimitsSerializer(allow_null=True)


class ReachSerializer(serializers.Serializer[Reach]):
    """What the pattern of a rule matches, of the bins that were looked at."""

    pattern = serializers.CharField(source="rule.pattern")
    matches = serializers.SerializerMethodField(help_text="`nothing`, `something` or `everything`.")
    bins = CountedSerializer()

    def get_matches(self, reach: Reach) -> str:
        if reach.is_everything:
            return "everything"
        return "nothing" if reach.is_nothing else "something"


class PreviewSerializer(serializers.Serializer[Preview]):
    """What would be touched, and how; nothing was stored."""

    bins = CountedSerializer(help_text="Bins for which something changes.")
    changes = BinChangeSerializer(many=True, help_text="The first of these bins.")
    seeds = CountedSerializer(help_text="Seeds that have the policy; all, where it holds everywhere.")
    rules = ReachSerializer(many=True, source="reaches")
    total_before = LimitsSerializer(allow_null=True)
    total_after = LimitsSerializer(allow_null=True)
    per_address_before = serializers.BooleanField()
    per_address_after = serializers.BooleanField()
    looked_at = serializers.IntegerField(source="among", help_text="So many bins were looked at.")
    of_all_bins = serializers.BooleanField(
        source="is_of_all_bins", help_text="They are all that are known; else those of the policy's seeds."
    )
    has_more = serializers.BooleanField(help_text="There are more of them than were looked at.")
    warnings = serializers.ListField(child=serializers.CharField())


# --- Views -----------------------------------------------------------------------------------------


class PolicyView(mixins.RetrieveModelMixin, ListingView):
    """Throttle policies. One that a one-shot made for itself is shown by its address only."""

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

    @extend_schema(description="Store a new policy.", responses={201: PolicySavedSerializer})
    def create(self, request: Request) -> Response:
        saved = policies.create(**self._wanted(request), **_by(request))
        return created(self._shown(saved), at=reverse("api:policy-detail", args=[saved.policy.pk]), request=request)

    @extend_schema(
        description="Replace a policy. It counts from the next turn of each bin.",
        responses={200: PolicySavedSerializer},
    )
    def update(self, request: Request, pk: str) -> Response:
        return self._change(request, partial=False)

    @extend_schema(
        description="Change some of a policy; rules are given all together. It counts from the next turn of each bin.",
        responses={200: PolicySavedSerializer},
    )
    def partial_update(self, request: Request, pk: str) -> Response:
        return self._change(request, partial=True)

    @extend_schema(description="Delete a policy that no seed has; 409 names the jobs whose seeds have it.")
    def destroy(self, request: Request, pk: str) -> Response:
        policies.delete(int(pk), **_by(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(
        operation_id="policies_preview",
        description="Say what a new policy would touch, and how; nothing is stored.",
        responses={200: PreviewSerializer},
    )
    @action(detail=False, methods=["post"])
    def preview(self, request: Request) -> Response:
        return self._preview(request, None, self._wanted(request))

    @extend_schema(
        operation_id="policies_preview_change",
        description="Say what a change of a policy would touch, and how; nothing is stored. The body is as that of PATCH.",
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
            facts["min_gap"] = policies.gap_unless_given(unlimited=facts["unlimited"], starts=facts.get("starts"))
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
