"""The state of the cluster at any minute of 30 days, and the events and versions around it."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from jobs.models import ClusterMinute, DefinitionVersion
from jobs.queries.cluster.facts import Facts, add_up, from_text
from jobs.queries.progress import SPANS, States, Step, read_progress
from jobs.queries.versions import StoredVersion, read_versions
from nodes.lifecycle import CLUSTER_SCOPE, NodeKind
from nodes.models import NodeEvent

_DAY: Final = dt.timedelta(days=1)
_AROUND: Final = dt.timedelta(minutes=5)
EVENTS_SHOWN: Final = 30
CHANGES_SHOWN: Final = 10
_VERSIONS_SHOWN: Final = 10
# The kinds of events that are listed for a day.
_LARGE_EVENTS: Final = (NodeEvent.Kind.ELECTED, NodeEvent.Kind.MARKED_FAILED)


@dataclass(frozen=True, slots=True)
class NodeThen:
    """A live node. A manager owns `groups`, and `weight` is the sum of their weights."""

    id: str
    name: str
    kind: str
    status: str
    machine: str
    tags: Sequence[str]
    is_main: bool
    groups: int
    weight: float


@dataclass(frozen=True, slots=True)
class GroupThen:
    """A group, and the id of the manager that owned it; '' without an owner."""

    id: int
    name: str
    weight: float
    owner: str


@dataclass(frozen=True, slots=True)
class ProgressThen:
    """The ended documents, the read bytes and the requests of one minute, and the documents by state at its end."""

    documents: int = 0
    bytes: int = 0
    requests: int = 0
    states: States | None = None


@dataclass(frozen=True, slots=True)
class JobThen:
    """A job that had a run, with the version number of its definition; 0 if that is unknown."""

    id: int
    name: str
    status: str
    run: int
    version: int
    progress: ProgressThen


@dataclass(frozen=True, slots=True)
class ClusterThen:
    """
    The state of the cluster at a minute. `is_exact` is true if this minute was stored; otherwise `at` is the last
    stored minute before it.

    `groups` are the heaviest groups. Progress is from the minute before.
    """

    at: dt.datetime
    is_exact: bool
    term: int
    main: NodeThen | None
    managers: Sequence[NodeThen]
    workers: Sequence[NodeThen]
    groups: Sequence[GroupThen]
    groups_without_owner: int
    jobs: Sequence[JobThen]
    progress: ProgressThen


class EventThen(NamedTuple):
    id: int
    at: dt.datetime
    kind: str
    message: str


def find_first_minute() -> dt.datetime | None:
    """Return the first minute that is kept; None if no minute is kept."""
    return ClusterMinute.objects.filter(is_whole=True).order_by("at").values_list("at", flat=True).first()


def find_last_minute() -> dt.datetime | None:
    """Return the last minute that is kept; None if no minute is kept."""
    return ClusterMinute.objects.order_by("-at").values_list("at", flat=True).first()


def read_cluster_then(minute: dt.datetime) -> ClusterThen | None:
    """Return the state of the cluster at a minute; None if no minute up to it was stored."""
    whole = ClusterMinute.objects.filter(is_whole=True, at__lte=minute).order_by("-at").first()
    if whole is None:
        return None
    rows = list(ClusterMinute.objects.filter(at__gte=whole.at, at__lte=minute).order_by("at"))
    return _from_facts(add_up(from_text(row.facts) for row in rows), at=rows[-1].at, minute=minute)


def read_events_around(minute: dt.datetime) -> list[EventThen]:
    """Return the events of nodes within five minutes of a minute, in their order."""
    events = NodeEvent.objects.filter(scope=CLUSTER_SCOPE, at__gte=minute - _AROUND, at__lt=minute + _AROUND)
    return [
        EventThen(*row) for row in events.order_by("at", "id").values_list("pk", "at", "kind", "message")[:EVENTS_SHOWN]
    ]


def read_large_events(day: dt.date) -> list[EventThen]:
    """Return the elections and failures of nodes of a day, the latest first."""
    begin = dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC)
    events = NodeEvent.objects.filter(
        scope=CLUSTER_SCOPE, kind__in=_LARGE_EVENTS, at__gte=begin, at__lt=begin + _DAY
    ).order_by("-at", "-id")
    return [EventThen(*row) for row in events.values_list("pk", "at", "kind", "message")[:CHANGES_SHOWN]]


def read_versions_before(minute: dt.datetime) -> list[StoredVersion]:
    """Return the versions that were stored in the day before the end of a minute, the newest first."""
    end = minute + dt.timedelta(minutes=1)
    return read_versions(begin=end - _DAY, end=end, most=_VERSIONS_SHOWN)


def read_day(day: dt.date, *, now: dt.datetime) -> list[Step]:
    """Return the progress of all jobs on a day, up to now."""
    begin = dt.datetime.combine(day, dt.time(), tzinfo=dt.UTC)
    last = min(now, begin + _DAY - dt.timedelta(seconds=1))
    return [step for step in read_progress(SPANS["24h"], now=last) if step.at >= begin]


def _from_facts(facts: Facts, *, at: dt.datetime, minute: dt.datetime) -> ClusterThen:
    main = facts.get("main", {}).get("", {})
    owners = facts.get("owners", {})
    nodes = [
        _node(key, node, owners.get(key, {}), main=main.get("node", "")) for key, node in facts.get("nodes", {}).items()
    ]
    nodes.sort(key=lambda node: (not node.is_main, node.name, node.id))
    groups = [
        GroupThen(int(key), group["name"], group["weight"], group["owner"] or "")
        for key, group in facts.get("groups", {}).items()
    ]
    progress, jobs = facts.get("progress", {}), facts.get("jobs", {})
    versions = _versions_of(map(int, jobs), until=at)
    return ClusterThen(
        at=at,
        is_exact=at == minute,
        term=main.get("term", 0),
        main=next((node for node in nodes if node.is_main), None),
        managers=[node for node in nodes if node.kind == NodeKind.MANAGER],
        workers=[node for node in nodes if node.kind == NodeKind.WORKER],
        groups=sorted(groups, key=lambda group: (-group.weight, group.id)),
        groups_without_owner=owners.get("", {}).get("groups", 0),
        jobs=[
            JobThen(
                int(key),
                job["name"],
                job["status"],
                job["run"],
                versions.get(int(key), 0),
                _progress(progress.get(key)),
            )
            for key, job in sorted(jobs.items(), key=lambda one: (one[1]["name"], one[0]))
        ],
        progress=_progress(progress.get("0")),
    )


def _node(key: str, node: Mapping[str, Any], held: Mapping[str, Any], *, main: str) -> NodeThen:
    return NodeThen(
        key,
        node["name"],
        node["kind"],
        node["status"],
        node["machine"],
        node["tags"],
        is_main=key == main,
        groups=held.get("groups", 0),
        weight=held.get("weight", 0.0),
    )


def _progress(kept: Sequence[Any] | None) -> ProgressThen:
    if kept is None:
        return ProgressThen()
    documents, read, requests, *states = kept
    return ProgressThen(documents, read, requests, None if None in states else States(*states))


def _versions_of(jobs: Iterable[int], *, until: dt.datetime) -> dict[int, int]:
    """Return the number of the version of each of these jobs at a moment."""
    rows = (
        DefinitionVersion.objects.filter(
            definition=DefinitionVersion.Subject.JOB, object_id__in=list(jobs), at__lte=until
        )
        .order_by("object_id", "-id")
        .distinct("object_id")
        .values_list("object_id", "number")
    )
    return dict(rows)
