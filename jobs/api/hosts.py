"""Hosts: their requests and limits, and the actions that stop and deny them for the whole cluster."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from django.db.models import Q, QuerySet
from django.db.models.functions import Collate
from django.http import StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.all_partitions import EverywhereView, PlacedSerializer, put_local_policy_ids
from jobs.api.downloads import download_lines
from jobs.api.host_details import EvidencePeriodSerializer, EvidenceSerializer, SitemapSerializer, WeekSerializer
from jobs.api.policies import LimitsSerializer
from jobs.models import Bin, Turn
from jobs.queries.hosts.answers import Answers, Refusal
from jobs.queries.hosts.evidence import evidence_facts, export
from jobs.queries.hosts.limits import LimitLines, SourceLine
from jobs.queries.hosts.lines import HostStatus, ParentLine, read_host_statuses, set_by_of
from jobs.queries.hosts.page import LaneLine, read_host_page
from jobs.queries.hosts.sitemaps import read_sitemaps
from jobs.queries.hosts.week import read_week
from jobs.verbs import deny_list, hosts
from jobs.verbs.deny_list import Denial
from jobs.verbs.hosts import MAY_STOP
from jobs.verbs.policies import EVERYWHERE
from jobs.verdicts.causes import Cause
from jobs.words import verdicts
from nodes.api.base import ContractView, created
from nodes.api.strict import Nothing, PageQuery, StrictSerializer, read_body, read_query
from nodes.database.clock import read_clock
from nodes.errors import Unknown

_ID: Final = "[0-9]{1,18}"
_LAST: Final = "\U0010ffff"
_STATES: Final = {
    "open": Q(pk__in=Turn.objects.filter(closed_at=None).values("bin_id")),
    "backing_off": Q(back_off_level__gt=0),
    "stopped": Q(stopped_at__isnull=False),
}


class SourceSerializer(serializers.Serializer[SourceLine]):
    """Source of a limit: the policy, robots.txt, the default or the stop that sets it."""

    origin = serializers.CharField(
        source="source.origin",
        help_text="`policy`, `robots` (crawl-delay), `usual` (the default without a policy), or `stop`.",
    )
    policy = serializers.IntegerField(source="source.policy", allow_null=True)
    policy_name = serializers.CharField(source="policy", allow_blank=True)
    rule = serializers.IntegerField(
        source="source.rule",
        allow_null=True,
        help_text="Number of the policy's rule, from 1. Null if the limit is that of the policy itself.",
    )
    since = serializers.DateTimeField(allow_null=True, help_text="Null if it is unknown.")
    until = serializers.DateTimeField(
        source="source.until", allow_null=True, help_text="Next moment at which a rule of the policy begins or ends."
    )


class SetBySerializer(serializers.Serializer[LimitLines]):
    """Source of each limit. Null where no limit applies."""

    denied = SourceSerializer(allow_null=True)
    open_requests = SourceSerializer(source="requests", allow_null=True)
    gap = SourceSerializer(allow_null=True)
    bytes_per_second = SourceSerializer(allow_null=True)


class ParentSerializer(serializers.Serializer[ParentLine]):
    """Hosts that share limits: all at one IP address, or all of a policy, or the whole cluster."""

    kind = serializers.CharField(source="namespace", help_text="`address` or `policy`.")
    name = serializers.CharField()
    applies_everywhere = serializers.BooleanField(source="is_everywhere")
    limits = LimitsSerializer()
    whole = LimitsSerializer(
        allow_null=True,
        help_text="Limits of all partitions together. `limits` are this partition's share. Null if the limits are not shared.",
    )
    set_by = SetBySerializer()
    open_requests = serializers.IntegerField(help_text="Open requests of all these hosts together.")
    starts_per_second = serializers.FloatField(allow_null=True)
    bytes_per_second = serializers.FloatField(allow_null=True)
    next_start_at = serializers.DateTimeField(source="opens_at", allow_null=True)


class StopSerializer(serializers.Serializer[HostStatus | Bin]):
    """Stop of a host, with its author and reason."""

    at = serializers.DateTimeField(source="stopped_at")
    by = serializers.CharField(source="stopped_by")
    reason = serializers.CharField(source="stopped_why")


class BackOffSerializer(serializers.Serializer[HostStatus]):
    """Back-off of a host: its level and its end."""

    level = serializers.IntegerField(source="back_off_level")
    until = serializers.DateTimeField(source="back_off_until", allow_null=True)
    since = serializers.DateTimeField(source="backing_off_since", allow_null=True)


class LimitedBySerializer(serializers.Serializer[HostStatus]):
    """Limit that a host has reached at this moment."""

    cause = serializers.ChoiceField([cause.value for cause in Cause], source="verdict.cause")
    set_by = serializers.SerializerMethodField(help_text="Source of the limit. Null if the cause is not a limit.")
    shared_with = serializers.CharField(
        source="parent.name",
        default=None,
        allow_null=True,
        help_text=("Address, policy or cluster that shares the limit. Null if the limit is not shared."),
    )
    since = serializers.DateTimeField(source="limited_since", allow_null=True)
    until = serializers.DateTimeField(source="verdict.until", allow_null=True)
    is_failing = serializers.SerializerMethodField(help_text="True if most of its latest requests failed.")
    sentence = serializers.SerializerMethodField(help_text="Cause in words, with the failures.")
    remedy = serializers.SerializerMethodField(
        help_text="Change that would remove the cause. Empty if no action is needed."
    )

    def get_is_failing(self, line: HostStatus) -> bool:
        return line.verdict.failing is not None

    def get_sentence(self, line: HostStatus) -> str:
        return verdicts.sentence_of_host(line, now=line.read_at)

    def get_remedy(self, line: HostStatus) -> str:
        return verdicts.remedy(line.verdict)

    @extend_schema_field(SourceSerializer(allow_null=True))
    def get_set_by(self, line: HostStatus) -> Any:  # noqa: ANN401 (a record, or none)
        set_by = set_by_of(line, line.verdict)
        return SourceSerializer(set_by).data if set_by else None


class HostSerializer(PlacedSerializer):
    """Host, or another bin of its connector. Rates are recent. Null means that a value is not known yet."""

    id = serializers.IntegerField()
    kind = serializers.CharField(source="namespace", help_text="Connector of the source: `web`, `filesystem`, …")
    name = serializers.CharField()
    limits = LimitsSerializer()
    set_by = SetBySerializer()
    limited_by = LimitedBySerializer(source="*")
    allowed_starts_per_second = serializers.FloatField(allow_null=True, help_text="Null if there is no limit.")
    starts_per_second = serializers.FloatField(allow_null=True)
    bytes_per_second = serializers.FloatField(allow_null=True)
    open_requests = serializers.IntegerField(
        allow_null=True,
        help_text="Open requests, as of the workers' last heartbeats. Null if no worker has reported them.",
    )
    lent_requests = serializers.IntegerField(source="lent", help_text="Maximum number of open requests.")
    in_progress = serializers.IntegerField(help_text="Documents in progress.")
    waiting = serializers.IntegerField(help_text="Waiting documents of running jobs.")
    next_start_at = serializers.DateTimeField(
        allow_null=True,
        help_text="Null if a request is in progress, if no document waits, or if the host is denied or stopped.",
    )
    back_off = serializers.SerializerMethodField()
    stopped = serializers.SerializerMethodField()
    parents = ParentSerializer(many=True)

    @extend_schema_field(BackOffSerializer(allow_null=True))
    def get_back_off(self, line: HostStatus) -> Any:  # noqa: ANN401 (a record, or none)
        return BackOffSerializer(line).data if line.back_off_level else None

    @extend_schema_field(StopSerializer(allow_null=True))
    def get_stopped(self, line: HostStatus) -> Any:  # noqa: ANN401 (a record, or none)
        return StopSerializer(line).data if line.stopped_at else None


class LaneSerializer(serializers.Serializer[LaneLine]):
    """Documents of one seed that wait for the host or are in progress there."""

    id = serializers.IntegerField()
    job = serializers.IntegerField(source="job_id")
    job_name = serializers.CharField()
    seed = serializers.CharField(help_text="First address of the seed.")
    priority = serializers.IntegerField()
    waiting = serializers.IntegerField()
    in_progress = serializers.IntegerField()
    served_at = serializers.DateTimeField(allow_null=True)
    ready_at = serializers.DateTimeField(allow_null=True)
    owner = serializers.CharField(allow_blank=True, help_text="Manager that hands out the documents.")


class RefusalSerializer(serializers.Serializer[Refusal]):
    """Answer 429 or 503 of the host."""

    at = serializers.DateTimeField()
    address = serializers.CharField()
    code = serializers.CharField()


class AnswersSerializer(serializers.Serializer[Answers]):
    """
    Answers of the host in the last hour. Only the newest history entries of each of its sources are examined (at most
    5,000).
    """

    count = serializers.IntegerField()
    since = serializers.DateTimeField(allow_null=True, help_text="Start of the first of these requests.")
    failed = serializers.IntegerField(help_text="Errors of the server, refusals and broken connections.")
    seconds_p50 = serializers.FloatField(
        source="p50", allow_null=True, help_text="Half of the answers took at most this time."
    )
    seconds_p95 = serializers.FloatField(
        source="p95", allow_null=True, help_text="95 % of the answers took at most this time."
    )
    by_code = serializers.DictField(child=serializers.IntegerField(), help_text="Answers by result code.")


class HostPageSerializer(HostSerializer):
    """Host with its recent rates, the seeds that wait for it, its latest answers and its sitemaps."""

    history = serializers.ListField(
        child=serializers.FloatField(allow_null=True),
        help_text="Request starts per second in steps of 5 s, the newest last. Null if the step was not measured.",
    )
    lanes = LaneSerializer(many=True, help_text="Waiting seeds, the next in line first (at most 20).")
    answers = AnswersSerializer()
    refusals = RefusalSerializer(many=True, help_text="Latest 429 and 503 answers, from the newest history entries.")
    sitemaps = SitemapSerializer(
        many=True, help_text="Sitemaps that robots.txt names, as it was last read (at most 20)."
    )


class HostQuery(PageQuery):
    name = serializers.CharField(required=False, max_length=300, help_text="Beginning of the host's name.")
    state = serializers.ChoiceField(
        list(_STATES), required=False, help_text="`open`: the host has documents in progress."
    )
    limit = serializers.IntegerField(min_value=1, max_value=200, default=50, help_text="Hosts per page.")


class ReasonSerializer(StrictSerializer):
    """Request to stop a host, with the reason."""

    reason = serializers.CharField(help_text="Reason, shown with the stop or the denial.")


class _ConfirmedSerializer(ReasonSerializer):
    confirm = serializers.BooleanField(
        default=False,
        help_text="True to stop or deny hosts that no crawl has reached. Without it, such a request gets 409, `unknown_hosts`.",
    )


class StopByNameSerializer(_ConfirmedSerializer):
    """Request to stop a web host that is given by its name."""

    name = serializers.CharField(
        help_text="Name of a web host, or an address there. Without a port, it means every port of the host."
    )


class HostView(EverywhereView):
    of_jobs = False
    http_method_names = ["get", "head", "options", "post"]
    queried = ("list", "evidence_file")
    permissions_needed = {
        "list": "jobs.view_bin",
        "retrieve": "jobs.view_bin",
        "rates": "jobs.view_bin",
        "evidence": "jobs.view_bin",
        "evidence_file": "jobs.view_bin",
        "stop": MAY_STOP,
        "stop_by_name": MAY_STOP,
        "release": MAY_STOP,
        "end_back_off": EVERYWHERE,
    }
    queryset = Bin.objects.exclude(namespace__in=[Bin.ADDRESS, Bin.POLICY])
    serializer_class = HostSerializer
    # The ETag does not cover the back-off, which changes by itself while the host is crawled.
    tagged_fields = ("stopped",)
    query_class = HostQuery
    lookup_value_regex = _ID

    def lock_and_read_tag(self) -> str | None:
        if "pk" not in self.kwargs:
            return None
        found = get_object_or_404(self.get_queryset().select_for_update(no_key=True), pk=self.kwargs["pk"])
        return self.tag_of_shown({"stopped": StopSerializer(found).data if found.stopped_at else None})

    def narrowed(self, queryset: QuerySet[Any], query: dict[str, Any]) -> QuerySet[Any]:
        if name := query.get("name"):
            # The collation of the index.
            queryset = queryset.annotate(begins=Collate("name", "C")).filter(begins__gte=name, begins__lt=name + _LAST)
        return queryset.filter(_STATES[query["state"]]) if "state" in query else queryset

    def described(self, rows: Sequence[Any]) -> Sequence[Any]:
        found = {line.id: line for line in read_host_statuses([row.pk for row in rows], now=read_clock())}
        return [found.get(row.pk) for row in rows]

    def replace_names(self, rows: Sequence[dict[str, Any]]) -> None:
        put_local_policy_ids(rows)

    @extend_schema(
        description="List hosts and the limits of each, oldest first. Those of other partitions follow, one partition after the other.",
        parameters=[HostQuery],
    )
    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().list(request, *args, **kwargs)

    @extend_schema(description="Return one host with the seeds that wait for it.", responses=HostPageSerializer)
    def retrieve(self, request: Request, pk: str) -> Response:
        found = read_host_page(int(pk), now=read_clock())
        if found is None:
            raise Unknown("host", int(pk))
        others = {
            "history": found.host.history,
            "lanes": [LaneSerializer(lane).data for lane in found.lanes],
            "answers": AnswersSerializer(found.answers).data,
            "refusals": [RefusalSerializer(refusal).data for refusal in found.answers.refusals],
            "sitemaps": [SitemapSerializer(sitemap).data for sitemap in read_sitemaps(found.host.name)],
        }
        return Response(HostSerializer(found.host).data | others)

    @extend_schema(
        operation_id="hosts_rates",
        description=(
            "Return the rate of a host by hour in the last seven days, beside the limits in force. The requests of the last ten "
            "minutes are not counted yet."
        ),
        responses=WeekSerializer,
    )
    @action(detail=True, methods=["get"])
    def rates(self, request: Request, pk: str) -> Response:
        if not self.get_queryset().filter(pk=pk).exists():
            raise Unknown("host", int(pk))
        return Response(WeekSerializer({"hours": read_week(int(pk), now=read_clock())}).data)

    @extend_schema(
        operation_id="hosts_evidence",
        description=(
            "Return the state of the record of requests to a host: its last hash, its gaps, and the minutes of the last day. The "
            "hashes of its newest blocks are verified."
        ),
        responses=EvidenceSerializer,
    )
    @action(detail=True, methods=["get"])
    def evidence(self, request: Request, pk: str) -> Response:
        return Response(EvidenceSerializer(evidence_facts(self._name_of(pk), now=read_clock())).data)

    @extend_schema(
        operation_id="hosts_evidence_file",
        description=(
            "Download the record of requests to a host, one JSON object a line. `manage.py evidence check` compares it with the "
            "access log of the site."
        ),
        parameters=[EvidencePeriodSerializer],
        responses={(200, "application/x-ndjson"): OpenApiTypes.STR},
    )
    @action(detail=True, methods=["get"], url_path="evidence/file")
    def evidence_file(self, request: Request, pk: str) -> StreamingHttpResponse:
        asked = read_query(EvidencePeriodSerializer, request)
        name = self._name_of(pk)
        lines = export(name, begin=asked.get("since"), until=asked.get("until"))
        return download_lines(lines, name=f"evidence-{name}", now=read_clock())

    def _name_of(self, pk: str) -> str:
        name = self.get_queryset().filter(pk=pk).values_list("name", flat=True).first()
        if name is None:
            raise Unknown("host", int(pk))
        return str(name)

    @extend_schema(
        operation_id="hosts_stop",
        description=(
            "Stop a host. Within 5 seconds, no node sends it requests, and open ones are closed. Its documents wait until it is "
            "released. Outputs keep their content. A name without a port means every port."
        ),
        request=ReasonSerializer,
        responses=HostPageSerializer,
    )
    @action(detail=True, methods=["post"])
    def stop(self, request: Request, pk: str) -> Response:
        wanted = read_body(ReasonSerializer, request)
        hosts.stop(int(pk), **wanted, made_by=_name(request), now=read_clock())
        return self.retrieve(request, pk)

    @extend_schema(
        operation_id="hosts_stop_by_name",
        description="Stop a web host by its name. A host that no crawl has reached needs `confirm`.",
        request=StopByNameSerializer,
        responses=HostPageSerializer,
    )
    @action(detail=False, methods=["post"], url_path="stop", url_name="stop-by-name")
    def stop_by_name(self, request: Request) -> Response:
        facts, name = read_body(StopByNameSerializer, request), _name(request)

        def stop() -> Any:  # noqa: ANN401 (an answer)
            stopped = hosts.stop_named(
                facts["name"], reason=facts["reason"], confirm=facts["confirm"], made_by=name, now=read_clock()
            )
            return self.retrieve(request, str(stopped.pk)).data

        return Response(hosts.where_it_is(stop).line)

    @extend_schema(
        operation_id="hosts_release",
        description="Release a stopped host. Requests resume within its limits.",
        request=Nothing,
        responses=HostPageSerializer,
    )
    @action(detail=True, methods=["post"], url_path="release")
    def release(self, request: Request, pk: str) -> Response:
        return self._make(request, pk, hosts.release)

    @extend_schema(
        operation_id="hosts_end_back_off",
        description=(
            "End the back-off of a host. Within 5 seconds, all nodes resume requests at the full rate. Documents that wait for a "
            "retry there are due immediately."
        ),
        request=Nothing,
        responses=HostPageSerializer,
    )
    @action(detail=True, methods=["post"], url_path="end-back-off")
    def end_back_off(self, request: Request, pk: str) -> Response:
        return self._make(request, pk, hosts.end_back_off)

    def _make(self, request: Request, pk: str, verb: Callable[..., object]) -> Response:
        """Perform an action that needs no data of the request, and return the host."""
        read_body(Nothing, request)
        verb(int(pk), made_by=_name(request), now=read_clock())
        return self.retrieve(request, pk)


# --- The deny list -------------------------------------------------------------------------------


class DenialSerializer(serializers.Serializer[Denial]):
    """Rule that denies the hosts of a pattern. The rule belongs to a policy that applies everywhere."""

    pattern = serializers.CharField(allow_blank=True, help_text="Host pattern. If empty, all hosts match.")
    policy = serializers.IntegerField(source="policy_id")
    policy_name = serializers.CharField(source="policy")
    rule = serializers.IntegerField(help_text="From 1.")
    is_always = serializers.BooleanField(
        help_text="True if the denial holds at all times. Otherwise it holds at the times of the rule."
    )
    reason = serializers.CharField(
        help_text="User who denied the hosts. Empty if the rule was made with the form of the policy."
    )
    denied_by = serializers.CharField()
    denied_at = serializers.DateTimeField(allow_null=True)


class DenyListSerializer(serializers.Serializer[Any]):
    denials = DenialSerializer(many=True)


_PATTERN: Final = "Host pattern, such as `www.example.com` or `*.example.com` (not example.com itself). Without a port, it means every port."


class DenySerializer(_ConfirmedSerializer):
    """Request to deny the hosts of a pattern."""

    pattern = serializers.CharField(help_text=_PATTERN)


class AllowSerializer(StrictSerializer):
    """Request to remove a denial from a policy."""

    pattern = serializers.CharField(help_text=_PATTERN)
    policy = serializers.IntegerField(help_text="Policy with the denial.")


class _OfDenyList(ContractView):
    """The deny list as a resource. It has one ETag for all its lines."""

    tagged_fields = ("denials",)

    def lock_and_read_tag(self) -> str | None:
        return self.tag_of_shown(_deny_list(lock=True).data)


class DenyListView(_OfDenyList):
    permissions_needed = {"get": "jobs.view_throttlepolicy", "post": MAY_STOP}
    http_method_names = ["get", "head", "options", "post"]

    @extend_schema(
        operation_id="deny_list",
        description="List the denials of policies that apply everywhere.",
        responses=DenyListSerializer,
    )
    def get(self, request: Request) -> Response:
        read_query(Nothing, request)
        return _deny_list()

    @extend_schema(
        operation_id="deny_list_add",
        description="Deny hosts for all jobs, and return the whole list. Their documents end as DENIED. Outputs keep their content.",
        request=DenySerializer,
        responses={201: DenyListSerializer},
    )
    def post(self, request: Request) -> Response:
        facts = read_body(DenySerializer, request)
        deny_list.deny(facts.pop("pattern"), **facts, made_by=_name(request), now=read_clock())
        return created(_deny_list().data, at=reverse("api:deny-list"), request=request)


class AllowView(_OfDenyList):
    permissions_needed = {"post": MAY_STOP}

    @extend_schema(
        operation_id="deny_list_remove",
        description="Remove hosts from the deny list, and return the whole list.",
        request=AllowSerializer,
        responses=DenyListSerializer,
    )
    def post(self, request: Request) -> Response:
        wanted = read_body(AllowSerializer, request)
        policy, pattern = wanted["policy"], wanted["pattern"]
        deny_list.allow(policy, pattern=pattern, made_by=_name(request), everywhere=request.user.has_perm(EVERYWHERE))
        return _deny_list()


def _deny_list(*, lock: bool = False) -> Response:
    return Response(DenyListSerializer({"denials": deny_list.denials(lock=lock)}).data)


def _name(request: Request) -> str:
    return str(request.user.get_username())
