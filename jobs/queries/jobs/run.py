"""One run, and the comparison of two runs of a job: from their rows and samples, the journal, versions and minutes."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Q

from jobs.lifecycle.job import TRANSITIONS
from jobs.models import DefinitionVersion, Job, JobEvent, Run
from jobs.partitions.merged import local_job, read_everywhere
from jobs.queries.cluster.history import read_cluster_then
from jobs.queries.jobs.run_documents import ComparedDocuments, compare_documents
from jobs.queries.jobs.runs import RunLine, read_run_lines
from jobs.queries.versions import StoredVersion, read_versions
from nodes.database.clock import read_clock
from nodes.errors import Invalid, Unknown
from nodes.lifecycle import CLUSTER_SCOPE

# Number of a job's newest events among which the events of a run are searched, and largest number of versions in a
# comparison.
EXAMINED: Final = 500
_KINDS_OF_MOVES: Final = frozenset(row.kind for row in TRANSITIONS.values())


@dataclass(frozen=True, slots=True)
class RunEvent:
    """An event of the journal. `to` is the state after a transition, '' for another event."""

    id: int
    at: dt.datetime
    made_by: str
    message: str
    to: str


@dataclass(frozen=True, slots=True)
class RunPage:
    """
    A run with its events, the oldest first, and the ids of the runs before and after it.

    `is_complete` is True if the examined events of the journal include all events of the run.
    """

    line: RunLine
    events: Sequence[RunEvent]
    is_complete: bool
    previous_id: int | None
    next_id: int | None


@dataclass(frozen=True, slots=True)
class NodesOfRun:
    """The names of the live nodes of the cluster at the end of a run, or now."""

    managers: frozenset[str]
    workers: frozenset[str]


_NO_NODES: Final = NodesOfRun(frozenset(), frozenset())


@dataclass(frozen=True, slots=True)
class Comparison:
    """
    Two runs of one job, and the changes between their starts: events of the job, the oldest first, and versions of the
    settings and of the definitions that the job may use.

    `is_complete` is False if more changes may have been made than were examined. `documents` is None if a run kept no
    sample of its documents. Nodes are None if no minute of the run is kept. The nodes of the partitions in
    `nodes_missing` are not known.
    """

    earlier: RunLine
    later: RunLine
    changes: Sequence[RunEvent]
    versions: Sequence[StoredVersion]
    is_complete: bool
    documents: ComparedDocuments | None
    earlier_nodes: NodesOfRun | None
    later_nodes: NodesOfRun | None
    nodes_missing: Sequence[str] = ()

    @property
    def settings(self) -> list[StoredVersion]:
        return [version for version in self.versions if not version.definition]

    @property
    def definitions(self) -> list[StoredVersion]:
        return [version for version in self.versions if version.definition]


def read_run_page(run_id: int) -> RunPage:
    """
    Read a run.

    Raises:
        Unknown: the run does not exist.
    """
    line = _line(run_id)
    runs = Run.objects.filter(job_id=line.job_id)
    behind = runs.filter(run_no__gt=line.run_no).order_by("run_no").values_list("pk", "started_at").first()
    before = runs.filter(run_no__lt=line.run_no).order_by("-run_no").values_list("pk", flat=True).first()
    events, is_complete = _events(line.job_id, since=line.started_at, until=behind[1] if behind else None)
    return RunPage(line, events, is_complete, before, behind[0] if behind else None)


def compare_runs(first_id: int, second_id: int) -> Comparison:
    """
    Compare two runs of one job, in either order.

    Raises:
        Invalid: both are the same run, or they are runs of two jobs.
        Unknown: a run does not exist.
    """
    if first_id == second_id:
        raise Invalid({"later": ["A run cannot be compared with itself. Choose another run of the job."]})
    earlier, later = sorted((_line(first_id), _line(second_id)), key=lambda line: line.run_no)
    if earlier.job_id != later.job_id:
        raise Invalid({"later": ["These are runs of two jobs. Choose two runs of the same job."]})
    events, is_complete = _events(earlier.job_id, since=earlier.started_at, until=later.started_at)
    job = Job.objects.get(pk=earlier.job_id)
    earlier_nodes, later_nodes, nodes_missing = _nodes_everywhere(job, earlier, later)
    versions = read_versions(
        begin=earlier.started_at, end=later.started_at, most=EXAMINED, definitions=_definitions_of(job)
    )
    return Comparison(
        earlier,
        later,
        changes=[event for event in events if not event.to],
        versions=versions[::-1],
        is_complete=is_complete and len(versions) < EXAMINED,
        documents=compare_documents(job_id=job.pk, earlier=earlier.run_no, later=later.run_no),
        earlier_nodes=earlier_nodes,
        later_nodes=later_nodes,
        nodes_missing=nodes_missing,
    )


def _definitions_of(job: Job) -> Q:
    """Return the definitions that the job may use: its own, its connections, and every policy."""
    subject = DefinitionVersion.Subject
    outputs = list(job.outputs.values_list("pk", flat=True))
    return (
        Q(definition=subject.POLICY)
        | Q(definition=subject.JOB, object_id=job.pk)
        | Q(definition=subject.REPOSITORY, object_id=job.repository_id)
        | Q(definition=subject.OUTPUT, object_id__in=outputs)
    )


def _nodes_everywhere(job: Job, *runs: RunLine) -> tuple[NodesOfRun | None, NodesOfRun | None, list[str]]:
    """
    Return the nodes at the ends of two runs in all partitions that have the job, and the partitions whose nodes are not known.

    Only jobs of the daemons' cluster have known nodes, because the state of other clusters is not kept.
    """
    if job.node_scope != CLUSTER_SCOPE:
        return None, None, []

    def read() -> list[NodesOfRun | None]:
        return [_nodes(line) for line in runs]

    def read_there(_partition: str) -> list[NodesOfRun | None]:
        return read() if local_job(job.pk) is not None else [_NO_NODES, _NO_NODES]

    found = read_everywhere(read, read_there)
    known = {name: part for name, part in found.others.items() if None not in part}
    missing = sorted({silent.name for silent in found.silent} | (found.others.keys() - known.keys()))
    earlier, later = (
        _merged(own, {name: part[run] for name, part in known.items()}) for run, own in enumerate(found.own)
    )
    return earlier, later, missing


def _merged(own: NodesOfRun | None, others: Mapping[str, NodesOfRun | None]) -> NodesOfRun | None:
    """
    Return the names of the nodes of all partitions; None if those of this partition are unknown. For a node of another
    partition, the partition's name follows in brackets.
    """
    if own is None:
        return None
    managers, workers = set(own.managers), set(own.workers)
    for partition, nodes in others.items():
        if nodes is not None:
            managers |= {f"{name} ({partition})" for name in nodes.managers}
            workers |= {f"{name} ({partition})" for name in nodes.workers}
    return NodesOfRun(frozenset(managers), frozenset(workers))


def _nodes(line: RunLine) -> NodesOfRun | None:
    """Return the nodes at the end of a run, from the database of this thread; None if no minute of the run is kept."""
    then = read_cluster_then(line.ended_at or read_clock())
    # A minute has the state at one moment. For a run that is shorter than a minute, this may be the minute before the
    # run.
    if then is None or then.at < line.started_at - dt.timedelta(minutes=1):
        return None
    return NodesOfRun(frozenset(node.name for node in then.managers), frozenset(node.name for node in then.workers))


def _line(run_id: int) -> RunLine:
    run = Run.objects.select_related("job").filter(pk=run_id).first()
    if run is None:
        raise Unknown("run", run_id)
    return read_run_lines([run])[0]


def _events(job_id: int, *, since: dt.datetime, until: dt.datetime | None) -> tuple[list[RunEvent], bool]:
    """Return the events of a job in an interval, the oldest first, and True if all of them were examined."""
    newest = list(JobEvent.objects.filter(job_id=job_id).order_by("-id")[:EXAMINED])
    found = [
        RunEvent(
            event.pk,
            event.at,
            event.made_by,
            event.message,
            str(event.detail.get("to") or "-") if event.kind in _KINDS_OF_MOVES else "",
        )
        for event in reversed(newest)
        if event.at >= since and (until is None or event.at < until)
    ]
    return found, len(newest) < EXAMINED or newest[-1].at < since
