"""
Nodes and background tasks of all partitions.

Their own packages know of one database only. Here, their lists have the rows of all, and each row names its partition.
"""

from drf_spectacular.utils import extend_schema, extend_schema_view

from jobs.api.everywhere import EverywhereView, PlacedSerializer
from nodes.api import serializers as of_nodes
from nodes.api import views as nodes
from nodes.tasks import api as tasks

# The rows of these lists have numbers of their partition.
_ELSEWHERE = "Those of other partitions follow, one partition after the other."


class NodeSerializer(PlacedSerializer, of_nodes.NodeSerializer):
    """Node: one run of one process."""

    class Meta(of_nodes.NodeSerializer.Meta):
        fields = (*of_nodes.NodeSerializer.Meta.fields, "partition")
        read_only_fields = fields


class NodeEventSerializer(PlacedSerializer, of_nodes.NodeEventSerializer):
    """Event of a node."""

    class Meta(of_nodes.NodeEventSerializer.Meta):
        fields = (*of_nodes.NodeEventSerializer.Meta.fields, "partition")
        read_only_fields = fields


class TaskSerializer(PlacedSerializer, tasks.TaskSerializer):
    """Scheduled task. Fields with `last_` are those of its last attempt."""

    class Meta(tasks.TaskSerializer.Meta):
        fields = (*tasks.TaskSerializer.Meta.fields, "partition")
        read_only_fields = fields


class ArchivedTaskSerializer(PlacedSerializer, tasks.ArchivedTaskSerializer):
    """Ended task. Fields with `last_` are those of its last attempt."""

    class Meta(tasks.ArchivedTaskSerializer.Meta):
        fields = (*tasks.ArchivedTaskSerializer.Meta.fields, "partition")
        read_only_fields = fields


class TaskWorkerSerializer(PlacedSerializer, tasks.TaskWorkerSerializer):
    """Worker of the roster."""

    class Meta(tasks.TaskWorkerSerializer.Meta):
        fields = (*tasks.TaskWorkerSerializer.Meta.fields, "partition")
        read_only_fields = fields


@extend_schema_view(
    list=extend_schema(description="List the nodes of all partitions, newest first, including ended ones.")
)
class NodeView(EverywhereView, nodes.NodeView):
    of_jobs = False
    serializer_class = NodeSerializer


@extend_schema_view(list=extend_schema(description=f"List the journal of nodes, newest first. {_ELSEWHERE}"))
class NodeEventView(EverywhereView, nodes.NodeEventView):
    of_jobs = False
    serializer_class = NodeEventSerializer


@extend_schema_view(list=extend_schema(description=f"List scheduled tasks, oldest first. {_ELSEWHERE}"))
class TaskView(EverywhereView, tasks.TaskView):
    of_jobs = False
    serializer_class = TaskSerializer


@extend_schema_view(list=extend_schema(description=f"List ended tasks, newest first. {_ELSEWHERE}"))
class ArchivedTaskView(EverywhereView, tasks.ArchivedTaskView):
    of_jobs = False
    serializer_class = ArchivedTaskSerializer


@extend_schema_view(list=extend_schema(description="List the task workers of the roster of all partitions."))
class TaskWorkerView(EverywhereView, tasks.TaskWorkerView):
    of_jobs = False
    serializer_class = TaskWorkerSerializer
