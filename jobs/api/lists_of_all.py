"""
Nodes and background tasks of all partitions.

The packages of nodes and tasks know only one database. The lists here have the rows of all partitions, and each row
names its partition.
"""

from drf_spectacular.utils import extend_schema, extend_schema_view

from jobs.api.all_partitions import EverywhereView
from nodes.api import views as nodes
from nodes.tasks import api as tasks

# An id in a row is valid in the partition that the row names.
_ELSEWHERE = "Those of other partitions follow, one partition after the other."


@extend_schema_view(
    list=extend_schema(description="List the nodes of all partitions, newest first, including ended ones.")
)
class NodeView(EverywhereView, nodes.NodeView):
    of_jobs = False


@extend_schema_view(list=extend_schema(description=f"List the journal of nodes, newest first. {_ELSEWHERE}"))
class NodeEventView(EverywhereView, nodes.NodeEventView):
    of_jobs = False


@extend_schema_view(list=extend_schema(description=f"List scheduled tasks, oldest first. {_ELSEWHERE}"))
class TaskView(EverywhereView, tasks.TaskView):
    of_jobs = False


@extend_schema_view(list=extend_schema(description=f"List ended tasks, newest first. {_ELSEWHERE}"))
class ArchivedTaskView(EverywhereView, tasks.ArchivedTaskView):
    of_jobs = False


@extend_schema_view(list=extend_schema(description="List the task workers of the roster of all partitions."))
class TaskWorkerView(EverywhereView, tasks.TaskWorkerView):
    of_jobs = False
