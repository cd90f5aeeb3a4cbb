"""The tables at the end of a demo: the results of the documents, and the work of each node."""

import datetime as dt
from collections.abc import Iterable

from django.db.models import Count
from rich.console import Console
from rich.table import Table

from jobs.lifecycle.document import Stage
from jobs.models import Job, Outcome, QueueItem
from jobs.partitions import this_partition
from nodes.lifecycle import CLUSTER_SCOPE, NodeKind
from nodes.models import MainTerm, Node


def show_end(console: Console, job: Job, *, since: dt.datetime) -> None:
    """Show how a run ended, and the nodes that have started since `since`."""
    for table in (_documents(job), _nodes(since)):
        console.print(table)
    assert job.started_at is not None
    seconds = ((job.ended_at or job.started_at) - job.started_at).total_seconds()
    ended = QueueItem.objects.filter(job_id=job.pk, run_no=job.run_no, stage=Stage.DONE).count()
    rate = f", {ended / seconds:,.0f} documents a second" if seconds and this_partition.placement() is None else ""
    console.print(f"{job.name}: {job.run_end.replace('_', ' ')} after {seconds:.1f} s{rate}.")


def _documents(job: Job) -> Table:
    placement = this_partition.placement()
    title = "Documents" if placement is None else f"Documents of partition {placement.here}"
    table = Table("state", "result code", title=title, title_justify="left")
    table.add_column("documents", justify="right")
    counted = (
        QueueItem.objects.filter(job_id=job.pk)
        .values_list("stage", "outcome", "result_code")
        .annotate(amount=Count("hash"))
        .order_by("stage", "outcome", "-amount")
    )
    total = 0
    for stage, outcome, code, amount in counted:
        total += amount
        state = Outcome(outcome).label if stage == Stage.DONE else Stage(stage).name.lower().replace("_", " ")
        table.add_row(str(state), code, f"{amount:,}")
    table.add_section()
    table.add_row("all", "", f"{total:,}")
    return table


def _nodes(since: dt.datetime) -> Table:
    table = Table("node", "status", "did", title="Nodes", title_justify="left")
    mains = set(MainTerm.objects.filter(scope=CLUSTER_SCOPE, resigned=False).values_list("main_id", flat=True))
    for node in Node.objects.filter(scope=CLUSTER_SCOPE, started_at__gte=since).order_by("kind", "name", "started_at"):
        name = f"{node.name} (main)" if node.pk in mains else node.name
        table.add_row(name, node.status, ", ".join(_events_of(node)))
    return table


def _events_of(node: Node) -> Iterable[str]:
    """Yield the work that the node reported with its last beat."""
    progress = node.progress
    if node.kind == NodeKind.MANAGER:
        yield f"stuffed {progress.get('stuffed', 0):,}"
        yield f"owns {progress.get('groups', 0)} throttle group(s)"
    else:
        yield f"reported {progress.get('flushed', 0):,}"
    if node.refused_writes:
        yield f"{node.refused_writes:,} writes refused"
