"""The input of verdicts: facts about jobs, and about the nodes that may work for them."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from django.db import connection

from jobs.lifecycle.job import JobState, Pause, StopRequest, Window
from jobs.queries.cluster.nodes import read_live_nodes
from jobs.verdicts.jobs import ClusterSeen, JobSeen
from jobs.verdicts.requests import Requests
from nodes.lifecycle import NodeKind

# Number of a job's newest events in which the transition to its present state is searched.
_EXAMINED: Final = 50
# Beginning of the name by which workers appear as authors of transitions, for example of a pause after an output
# refused (`jobs.loops.worker.writing`).
_WORKER: Final = "worker"

# Largest number of seeds whose lanes are searched for the next due document.
_SEEDS: Final = 200
# The first lane of each seed, in the order of the index. Further lanes are not read.
_NEXT_READY: Final = """
SELECT min(lane.ready_at)
  FROM (SELECT id FROM jobs_seed WHERE job_id = ANY(%(jobs)s) LIMIT %(seeds)s) AS seed
 CROSS JOIN (VALUES (true), (false)) AS ahead(is_ahead)
 CROSS JOIN LATERAL (SELECT ready_at FROM jobs_lanestate
                      WHERE seed_id = seed.id AND is_ahead = ahead.is_ahead AND ready_at IS NOT NULL
                      ORDER BY ready_at LIMIT 1) AS lane
"""
_CHANGES: Final = """
SELECT job.id, change.at, change.made_by, change.kind
  FROM unnest(%(jobs)s::bigint[]) AS job(id)
 CROSS JOIN LATERAL (
       SELECT at, made_by, kind
         FROM (SELECT at, made_by, kind, id FROM jobs_jobevent WHERE job_id = job.id ORDER BY id DESC LIMIT %(examined)s) AS newest
        WHERE kind = ANY(%(kinds)s) ORDER BY id DESC LIMIT 1) AS change
"""
# Transitions by an operator, a schedule or a failure that leave the job in a lasting state.
_KINDS: Final = [
    *(
        "start",
        "start_minimal",
        "begin_window",
        "follow",
        "pause",
        "interrupt",
        "resume",
        "abort",
        "restart",
        "restart_minimal",
    ),
    *("wait", "unwait", "lose_connector", "fail", "give_up", "shut_down", "hold_removals", "finish", "end"),
]


class Change(NamedTuple):
    """The transition of a job to its present state."""

    at: dt.datetime
    made_by: str
    kind: str


def job_facts(
    state: JobState,
    *,
    reason: str,
    change: Change | None,
    latest: Requests,
    archive_hold: str = "",
    archive_held_since: dt.datetime | None = None,
    move_hold: int = 0,
    opens_at: dt.datetime | None = None,
) -> JobSeen:
    """Return the facts of one job as the input of a verdict."""
    return JobSeen(
        state,
        since=change.at if change else None,
        by=change.made_by if change else "",
        reason=reason,
        opens_at=opens_at,
        archive_hold=archive_hold,
        archive_held_since=archive_held_since,
        move_hold=move_hold > 0,
        is_paused_by_output=state.pause != Pause.NO
        and change is not None
        and (change.kind, change.made_by) == ("pause", _WORKER),
        latest=latest,
    )


def is_held(state: JobState) -> bool:
    """True if an operator, a schedule or a failure holds the job: its page names the author and the time."""
    return (
        state.pause != Pause.NO
        or state.window != Window.INSIDE
        or state.stop_request != StopRequest.NONE
        or not state.connectors_ready
    )


def read_changes(job_ids: Sequence[int]) -> Mapping[int, Change]:
    """Read the transition of each of these jobs to its present state, if it is among the newest events."""
    if not job_ids:
        return {}
    facts: dict[str, Any] = {"jobs": list(job_ids), "kinds": _KINDS, "examined": _EXAMINED}
    with connection.cursor() as cursor:
        cursor.execute(_CHANGES, facts)
        return {job_id: Change(*change) for job_id, *change in cursor.fetchall()}


def read_cluster(scope: str, *, now: dt.datetime) -> ClusterSeen:
    """Return the facts about the nodes that may work for jobs of a scope."""
    nodes = [node for node in read_live_nodes() if node.scope == scope and not node.is_silent(now=now)]
    workers = [node for node in nodes if node.kind == NodeKind.WORKER]
    # Workers report with their heartbeats which disk lacks room (`jobs.loops.disk`).
    shortages = [str(node.progress.get("disk") or "") for node in workers]
    return ClusterSeen(
        managers=len(nodes) - len(workers),
        workers=len(workers),
        disk_shortage=shortages[0] if shortages and all(shortages) else "",
    )


def read_next_ready_at(job_ids: Sequence[int]) -> dt.datetime | None:
    """Return the time from which the first lane of these jobs may hand out a document; None without such a lane."""
    with connection.cursor() as cursor:
        cursor.execute(_NEXT_READY, {"jobs": list(job_ids), "seeds": _SEEDS})
        first: dt.datetime | None = cursor.fetchone()[0]
    return first
