"""Distributed jobs: their states, nodes and items, and their switches, which only administrators may set."""

from collections.abc import Mapping
from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from nodes.api.base import ContractView
from nodes.api.etags import tag_of
from nodes.api.strict import StrictSerializer, read_body, read_query
from nodes.assignment.names import DEFAULT
from nodes.coordination.names import BadName, checked
from nodes.coordination.port import LockSeen
from nodes.database.address import database_dsn
from nodes.database.clock import read_clock
from nodes.distributed.queries import ItemOfJob, JobSeen, plan_sharing, read_distributed_job, read_distributed_jobs
from nodes.distributed.records import ALL, DEFAULT_CLUSTER, OTHERS
from nodes.distributed.verbs import lock_switches, read_switches, request_rebalance, set_switch
from nodes.errors import Unknown

# Switches of many jobs, by their names in the API.
_OF_MANY: Final = {"all": ALL, "others": OTHERS}


class ClusterQuery(StrictSerializer):
    cluster = serializers.CharField(
        default=DEFAULT_CLUSTER, max_length=120, help_text="Name of the cluster whose nodes share the distributed jobs."
    )


class SwitchedSerializer(serializers.Serializer[Any]):
    """State of a switch, with its author and time."""

    is_disabled = serializers.BooleanField()
    by = serializers.CharField(help_text="User who set the switch. Empty if it was never set.")
    at = serializers.DateTimeField(allow_null=True)


class JobOnNodeSerializer(serializers.Serializer[Any]):
    """Distributed job on one node, as of the node's last report at `seen_at`. Moments are by its clock, counts since its start."""

    node = serializers.CharField()
    is_member = serializers.BooleanField(help_text="True if the node can be assigned items now.")
    items = serializers.IntegerField(help_text="Number of items of the node.")
    in_progress = serializers.IntegerField(help_text="Number of runs in progress.")
    runs = serializers.IntegerField()
    failures = serializers.IntegerField()
    failures_in_a_row = serializers.IntegerField()
    last_began_at = serializers.DateTimeField(allow_null=True)
    last_seconds = serializers.FloatField(allow_null=True)
    last_failure = serializers.CharField()
    next_at = serializers.DateTimeField(allow_null=True)
    problem = serializers.CharField(help_text="Problem with the pool or the schedule. Empty if there is none.")
    seen_at = serializers.DateTimeField()


class DistributedJobSerializer(serializers.Serializer[Any]):
    """Distributed job. Runs and failures are totals of all its nodes."""

    job = serializers.CharField()
    state = serializers.SerializerMethodField(
        help_text="`running` while a node runs one of its items, otherwise `stopped`."
    )
    is_disabled = serializers.BooleanField()
    switch = SwitchedSerializer(allow_null=True, help_text="Its own switch. Null if the switch of the others applies.")
    items = serializers.IntegerField(help_text="Number of items in the pool.")
    given = serializers.IntegerField(help_text="Number of assigned items.")
    able = serializers.IntegerField(help_text="Number of nodes that can run it.")
    in_progress = serializers.IntegerField()
    runs = serializers.IntegerField()
    failures = serializers.IntegerField()
    last_began_at = serializers.DateTimeField(allow_null=True)
    last_failure = serializers.CharField(help_text="Error of a node whose last run failed.")
    next_at = serializers.DateTimeField(allow_null=True)
    problem = serializers.CharField()
    nodes = JobOnNodeSerializer(many=True)

    def get_state(self, job: JobSeen) -> str:
        return "running" if job.is_running else "stopped"


class DistributedJobsSerializer(serializers.Serializer[Any]):
    """Distributed jobs of a cluster, the first 200 by name."""

    cluster = serializers.CharField()
    clusters = serializers.ListField(child=serializers.CharField(), help_text="Names of the known clusters.")
    main = serializers.CharField(help_text="Name of the main node. Empty while there is none.")
    term = serializers.IntegerField()
    refusal = serializers.CharField(
        help_text="Reason why the main node keeps the current assignment. Empty if there is none."
    )
    unseen = serializers.CharField(help_text="Reason why the coordination store cannot be read. Empty if it can.")
    all_jobs = SwitchedSerializer(help_text="Switch of all distributed jobs. It overrides their own switches.")
    other_jobs = SwitchedSerializer(help_text="Switch of distributed jobs without their own switch.")
    jobs = DistributedJobSerializer(many=True)
    jobs_in_all = serializers.IntegerField()


class LockOfItemSerializer(serializers.Serializer[Any]):
    """Lock of an item."""

    holder = serializers.CharField(help_text="Node that holds the lock. Empty if the stored lock is invalid.")
    since = serializers.DateTimeField(allow_null=True)
    remaining = serializers.SerializerMethodField(help_text="Remaining lease in seconds. 0 if it has expired.")
    note = serializers.CharField()

    def get_remaining(self, lock: LockSeen) -> float:
        return max(0.0, lock.remaining.total_seconds())


class ItemSerializer(serializers.Serializer[ItemOfJob]):
    """Item of a distributed job, with its node ('' if none) and its lock."""

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
    """Switch to set: of one `job`, of `all`, or of the `others` (without their own switch)."""

    cluster = serializers.CharField(default=DEFAULT_CLUSTER, max_length=120)
    of = serializers.ChoiceField(["job", *_OF_MANY], default="job")
    job = serializers.CharField(
        required=False, max_length=120, help_text="Name of the distributed job, if the switch is for one."
    )
    is_disabled = serializers.BooleanField(
        allow_null=True, help_text="True disables, false enables, null removes the switch."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if (attrs["of"] == "job") != ("job" in attrs):
            raise serializers.ValidationError({"job": ["Give `job` if `of` is `job`, and only then."]})
        if "job" in attrs:
            try:
                # The keys of the other two switches are not names of jobs.
                checked("job", attrs["job"])
            except BadName as bad:
                raise serializers.ValidationError({"job": [str(bad)]}) from None
        return attrs


class RebalanceJobsSerializer(StrictSerializer):
    """Rebalance of a cluster, or its dry run."""

    cluster = serializers.CharField(default=DEFAULT_CLUSTER, max_length=120)
    dry_run = serializers.BooleanField(default=False)
    strategy = serializers.CharField(
        default=DEFAULT,
        max_length=500,
        help_text="Strategy for the plan of a dry run. The main node always uses its own strategy.",
    )


class PlannedItemSerializer(serializers.Serializer[Any]):
    """Item that would move. '' means no node."""

    job = serializers.CharField()
    item = serializers.CharField()
    owner = serializers.CharField()
    to = serializers.CharField()


class SharingPlanSerializer(serializers.Serializer[Any]):
    """Plan of a strategy: items by node before and after, and the first 500 moves."""

    strategy = serializers.CharField()
    before = serializers.DictField(child=serializers.IntegerField())
    after = serializers.DictField(child=serializers.IntegerField())
    moves = PlannedItemSerializer(many=True)
    moves_in_all = serializers.IntegerField()


_CLUSTER = OpenApiParameter(
    "cluster", str, description=f"Name of the cluster whose nodes share the distributed jobs ({DEFAULT_CLUSTER})."
)


class _OfSwitches(ContractView):
    """
    A view whose ETag covers the switches of the cluster. The ETag is read before the switches, so that it is never
    newer than they are.
    """

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
        description="List the distributed jobs of a cluster with state, pool, runs, failures, next run and nodes.",
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
        description="Return one distributed job with its items, the node of each item, and the locks.",
        parameters=[_CLUSTER],
        responses=DistributedJobPageSerializer,
    )
    def get(self, request: Request, job: str) -> Response:
        cluster = read_query(ClusterQuery, request)["cluster"]
        seen = read_distributed_job(cluster, job, dsn=database_dsn())
        if seen is None:
            raise Unknown("distributed job", job, f"Cluster {cluster} has no distributed job {job!r}.")
        return Response(DistributedJobPageSerializer(seen).data)


class SwitchView(_OfSwitches):
    permissions_needed = {"post": "nodes.control_cluster"}

    def lock_and_read_tag(self) -> str | None:
        wanted = read_body(SwitchSerializer, self.request)
        lock_switches(wanted["cluster"])
        return self.read_tag(wanted["cluster"])

    @extend_schema(
        operation_id="distributed_jobs_switch",
        description="Disable or enable one distributed job, all of them, or all without their own switch. Nodes apply the switch within seconds.",
        request=SwitchSerializer,
        responses=DistributedJobsSerializer,
    )
    def post(self, request: Request) -> Response:
        wanted = read_body(SwitchSerializer, request)
        set_switch(
            cluster=wanted["cluster"],
            job=_OF_MANY.get(wanted["of"], wanted.get("job", "")),
            is_disabled=wanted["is_disabled"],
            made_by=request.user.get_username(),
            now=read_clock(),
        )
        self.read_tag(wanted["cluster"])
        return Response(DistributedJobsSerializer(read_distributed_jobs(wanted["cluster"], dsn=database_dsn())).data)


class RebalanceJobsView(ContractView):
    is_done_elsewhere = True
    permissions_needed = {"post": "nodes.control_cluster"}

    @extend_schema(
        operation_id="distributed_jobs_rebalance",
        description="Let the main node rebalance all items within seconds. A dry run returns the moves that a strategy would make now.",
        request=RebalanceJobsSerializer,
        responses={200: SharingPlanSerializer, 202: None},
    )
    def post(self, request: Request) -> Response:
        wanted = read_body(RebalanceJobsSerializer, request)
        if wanted["dry_run"]:
            plan = plan_sharing(wanted["cluster"], strategy=wanted["strategy"], dsn=database_dsn())
            return Response(SharingPlanSerializer(plan).data)
        request_rebalance(cluster=wanted["cluster"], made_by=request.user.get_username(), now=read_clock())
        return Response(status=status.HTTP_202_ACCEPTED)
