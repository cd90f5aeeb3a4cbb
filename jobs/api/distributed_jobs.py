"""Distributed jobs: how they do, who does what, and the switches; what is changed is for administrators."""

from collections.abc import Mapping
from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.distributed_jobs import DistributedJobUnknown, lock_switches, read_switches, set_switch, wish_rebalance
from jobs.loops.database import database_dsn
from jobs.queries.clock import read_clock
from jobs.queries.distributed_jobs import (
    ItemOfJob,
    JobSeen,
    plan_sharing,
    read_distributed_job,
    read_distributed_jobs,
)
from nodes.api.base import ContractView
from nodes.api.etags import tag_of
from nodes.api.strict import StrictSerializer, read_query
from nodes.assignment.names import DEFAULT
from nodes.coordination.port import LockSeen
from nodes.job_book import ALL, DEFAULT_CLUSTER, OTHERS

# What a switch may be of, by the words of the API.
_OF_MANY: Final = {"all": ALL, "others": OTHERS}


class ClusterQuery(StrictSerializer):
    cluster = serializers.CharField(
        default=DEFAULT_CLUSTER, max_length=120, help_text="The circle of nodes that share the jobs."
    )


class SwitchedSerializer(serializers.Serializer[Any]):
    """Whether something is disabled, and who said so when."""

    is_disabled = serializers.BooleanField()
    by = serializers.CharField(help_text="Empty where nobody has said anything.")
    at = serializers.DateTimeField(allow_null=True)


class JobOnNodeSerializer(serializers.Serializer[Any]):
    """A job on one node, as that node said last at `seen_at`; moments are by its clock, counts since it started."""

    node = serializers.CharField()
    is_member = serializers.BooleanField(help_text="Whether it can be given items at this moment.")
    items = serializers.IntegerField(help_text="How many it does.")
    in_hand = serializers.IntegerField(help_text="Runs that go on.")
    runs = serializers.IntegerField()
    failures = serializers.IntegerField()
    failures_in_a_row = serializers.IntegerField()
    last_began_at = serializers.DateTimeField(allow_null=True)
    last_seconds = serializers.FloatField(allow_null=True)
    last_failure = serializers.CharField()
    next_at = serializers.DateTimeField(allow_null=True)
    problem = serializers.CharField(help_text="What is wrong with its pool, or its schedule.")
    seen_at = serializers.DateTimeField()


class DistributedJobSerializer(serializers.Serializer[Any]):
    """A distributed job; runs and failures are of all its nodes together."""

    job = serializers.CharField()
    state = serializers.SerializerMethodField(
        help_text="`running` while anybody has one of its items in hand, else `stopped`."
    )
    is_disabled = serializers.BooleanField()
    switch = SwitchedSerializer(allow_null=True, help_text="Its own; null: it does as the others do.")
    items = serializers.IntegerField(help_text="In its work pool.")
    given = serializers.IntegerField(help_text="Of them given to a node.")
    able = serializers.IntegerField(help_text="Nodes that can do it.")
    in_hand = serializers.IntegerField()
    runs = serializers.IntegerField()
    failures = serializers.IntegerField()
    last_began_at = serializers.DateTimeField(allow_null=True)
    last_failure = serializers.CharField(help_text="Of a node whose last run failed.")
    next_at = serializers.DateTimeField(allow_null=True)
    problem = serializers.CharField()
    nodes = JobOnNodeSerializer(many=True)

    def get_state(self, job: JobSeen) -> str:
        return "running" if job.is_running else "stopped"


class DistributedJobsSerializer(serializers.Serializer[Any]):
    """The distributed jobs of a cluster, the first 200 by name."""

    cluster = serializers.CharField()
    clusters = serializers.ListField(child=serializers.CharField(), help_text="Those that are known.")
    main = serializers.CharField(help_text="Empty while nobody is.")
    term = serializers.IntegerField()
    refusal = serializers.CharField(help_text="Why the main leaves items where they are; empty where all is well.")
    unseen = serializers.CharField(help_text="Why the store could not be looked at; empty where it could.")
    all_jobs = SwitchedSerializer(help_text="The switch of all jobs, whatever theirs are.")
    other_jobs = SwitchedSerializer(help_text="The switch of jobs without one of their own.")
    jobs = DistributedJobSerializer(many=True)
    jobs_in_all = serializers.IntegerField()


class LockOfItemSerializer(serializers.Serializer[Any]):
    """Who has an item in hand."""

    holder = serializers.CharField(help_text="Empty where what is stored is no lock.")
    since = serializers.DateTimeField(allow_null=True)
    remaining = serializers.SerializerMethodField(
        help_text="Seconds of its lease; none is left of one that has expired."
    )
    note = serializers.CharField()

    def get_remaining(self, lock: LockSeen) -> float:
        return max(0.0, lock.remaining.total_seconds())


class ItemSerializer(serializers.Serializer[ItemOfJob]):
    """The smallest piece of a job: the node that is to do it ('' where none is), and its lock."""

    item = serializers.CharField()
    node = serializers.CharField()
    lock = LockOfItemSerializer(allow_null=True)


class DistributedJobPageSerializer(serializers.Serializer[Any]):
    """One distributed job with its items, the first 500 by name."""

    cluster = serializers.CharField()
    unseen = serializers.CharField()
    job = DistributedJobSerializer()
    items = ItemSerializer(many=True)
    items_in_all = serializers.IntegerField()


class SwitchSerializer(StrictSerializer):
    """What is to be disabled or enabled: one `job`, or `all`, or the `others`, which have no switch of their own."""

    cluster = serializers.CharField(default=DEFAULT_CLUSTER, max_length=120)
    of = serializers.ChoiceField(["job", *_OF_MANY], default="job")
    job = serializers.CharField(required=False, max_length=120, help_text="Where the switch is of one job.")
    is_disabled = serializers.BooleanField(allow_null=True, help_text="null takes the switch away.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if (attrs["of"] == "job") != ("job" in attrs):
            raise serializers.ValidationError({"job": ["Name a job where the switch is of one, and only there."]})
        return attrs


class RebalanceJobsSerializer(StrictSerializer):
    """Which cluster is to share its items out anew, and whether only to say what that would move."""

    cluster = serializers.CharField(default=DEFAULT_CLUSTER, max_length=120)
    dry_run = serializers.BooleanField(default=False)
    strategy = serializers.CharField(
        default=DEFAULT, max_length=500, help_text="By which the plan of a dry run is made; the main keeps to its own."
    )


class PlannedItemSerializer(serializers.Serializer[Any]):
    """An item that would go elsewhere; '' is nobody."""

    job = serializers.CharField()
    item = serializers.CharField()
    owner = serializers.CharField()
    to = serializers.CharField()


class SharingPlanSerializer(serializers.Serializer[Any]):
    """What the strategy comes to: items by node before and after, and the first 500 that would move."""

    strategy = serializers.CharField()
    before = serializers.DictField(child=serializers.IntegerField())
    after = serializers.DictField(child=serializers.IntegerField())
    moves = PlannedItemSerializer(many=True)
    moves_in_all = serializers.IntegerField()


_CLUSTER = OpenApiParameter("cluster", str, description=f"The circle of nodes that share the jobs ({DEFAULT_CLUSTER}).")


class _OfSwitches(ContractView):
    """The ETag covers the switches of the cluster. It is read before they are shown, so that it is never too new."""

    _tag: str | None = None

    def tag_of_shown(self, shown: Mapping[str, Any]) -> str | None:
        return self._tag

    def read_tag(self, cluster: str) -> str:
        """Note the present ETag for the answer, and return it."""
        self._tag = tag_of(read_switches(cluster))
        return self._tag


class DistributedJobsView(_OfSwitches):
    permissions_needed = {"get": "nodes.view_node"}

    @extend_schema(
        operation_id="distributed_jobs_list",
        description="The distributed jobs of a cluster: state, pool, runs, failures, next run, nodes.",
        parameters=[_CLUSTER],
        responses=DistributedJobsSerializer,
    )
    def get(self, request: Request) -> Response:
        cluster = read_query(ClusterQuery, request)["cluster"]
        self.read_tag(cluster)
        return Response(DistributedJobsSerializer(read_distributed_jobs(cluster, dsn=database_dsn())).data)


class DistributedJobView(ContractView):
    permissions_needed = {"get": "nodes.view_node"}

    @extend_schema(
        operation_id="distributed_jobs_retrieve",
        description="One distributed job: its items, who is to do each, and who has it in hand.",
        parameters=[_CLUSTER],
        responses=DistributedJobPageSerializer,
    )
    def get(self, request: Request, job: str) -> Response:
        cluster = read_query(ClusterQuery, request)["cluster"]
        seen = read_distributed_job(cluster, job, dsn=database_dsn())
        if seen is None:
            raise DistributedJobUnknown(job, cluster)
        return Response(DistributedJobPageSerializer(seen).data)


class SwitchView(_OfSwitches):
    permissions_needed = {"post": "nodes.control_cluster"}

    def lock_and_read_tag(self) -> str | None:
        wanted = SwitchSerializer(data=self.request.data)
        wanted.is_valid(raise_exception=True)
        lock_switches(wanted.validated_data["cluster"])
        return self.read_tag(wanted.validated_data["cluster"])

    @extend_schema(
        operation_id="distributed_jobs_switch",
        description="Disable or enable a distributed job, all of them, or those without a switch of their own. Nodes hear of it within seconds.",
        request=SwitchSerializer,
        responses=DistributedJobsSerializer,
    )
    def post(self, request: Request) -> Response:
        wanted = SwitchSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        said = wanted.validated_data
        set_switch(
            cluster=said["cluster"],
            job=_OF_MANY.get(said["of"], said.get("job", "")),
            is_disabled=said["is_disabled"],
            made_by=request.user.get_username(),
            now=read_clock(),
        )
        self.read_tag(said["cluster"])
        return Response(DistributedJobsSerializer(read_distributed_jobs(said["cluster"], dsn=database_dsn())).data)


class RebalanceJobsView(ContractView):
    asks_others = True
    permissions_needed = {"post": "nodes.control_cluster"}

    @extend_schema(
        operation_id="distributed_jobs_rebalance",
        description="Let the main share all items out anew, within seconds; or, as a dry run, say what a strategy would move now.",
        request=RebalanceJobsSerializer,
        responses={200: SharingPlanSerializer, 202: None},
    )
    def post(self, request: Request) -> Response:
        wanted = RebalanceJobsSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        said = wanted.validated_data
        if said["dry_run"]:
            plan = plan_sharing(said["cluster"], strategy=said["strategy"], dsn=database_dsn())
            return Response(SharingPlanSerializer(plan).data)
        wish_rebalance(cluster=said["cluster"], made_by=request.user.get_username(), now=read_clock())
        return Response(status=status.HTTP_202_ACCEPTED)
