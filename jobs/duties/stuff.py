"""Stuffing: the owner of a group supplies the workers with documents."""

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, LiteralString

import psycopg

from jobs.duties.context import Pass
from jobs.metrics import crawl
from jobs.queue.offering.cursors import JOIN_CURSORS
from jobs.queue.offering.hold import Stuffed
from jobs.queue.offering.stuff import stuff
from jobs.queue.offering.stuff_removals import stuff_expired, stuff_outside, stuff_removals
from jobs.queue.sql.low_water import LOWEST_BATCH
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.runnable import RUNNABLE
from jobs.state import channels
from jobs.throttling.bins import largest_turn
from nodes.membership.fences import FenceRefused

# Returns four things: the groups of this manager with a ready lane, by the kind of work that their documents need; the
# offered documents of each group that no worker has taken, and their workers; the seeds that were scanned from the
# start and have no ready lane; and the groups with an error.
_READ_GROUPS: Final[LiteralString] = f"""
WITH seen AS MATERIALIZED (
    SELECT seed.group_id, seed.id AS seed_id, job.phase = 'active' AS to_process,
           job.phase = 'active' AND job.expire_after IS NOT NULL AS may_expire,
           job.phase = 'active' AND job.kind = 'continuous' AND job.hop_limits <> '{{}}' AS may_leave,
           cursors.seed_id IS NULL AS is_whole,
           EXISTS (SELECT FROM jobs_lanestate AS lane WHERE lane.seed_id = seed.id AND NOT lane.is_ahead
                      AND lane.ready_at >= coalesce(cursors.others, '-infinity') AND lane.ready_at <= %(now)s)
           OR EXISTS (SELECT FROM jobs_lanestate AS lane WHERE lane.seed_id = seed.id AND lane.is_ahead
                         AND lane.ready_at >= coalesce(cursors.ahead, '-infinity') AND lane.ready_at <= %(now)s) AS is_ready
      FROM jobs_seed AS seed JOIN jobs_job AS job ON job.id = seed.job_id
      {JOIN_CURSORS}
     WHERE seed.group_id = ANY(%(groups)s) AND job.phase IN ('active', 'shutting_down', 'deleting')
       AND {RUNNABLE}
), ready AS (
    SELECT DISTINCT group_id, to_process, may_expire, may_leave FROM seen WHERE is_ready
)
SELECT (SELECT coalesce(array_agg(DISTINCT group_id), '{{}}') FROM ready WHERE to_process) AS to_process,
       (SELECT coalesce(array_agg(DISTINCT group_id), '{{}}') FROM ready WHERE may_expire) AS may_expire,
       (SELECT coalesce(array_agg(DISTINCT group_id), '{{}}') FROM ready WHERE may_leave) AS may_leave,
       (SELECT coalesce(array_agg(DISTINCT group_id), '{{}}') FROM ready WHERE NOT to_process) AS to_remove,
       (SELECT coalesce(array_agg(DISTINCT coalesce(worker_id, preferred)), '{{}}') FROM jobs_batch
         WHERE node_scope = %(scope)s AND state = 'available' AND id >= {LOWEST_BATCH}) AS notified,
       (SELECT coalesce(json_object_agg(group_id, documents), '{{}}')
          FROM (SELECT group_id, sum(documents) AS documents FROM jobs_batch
                 WHERE node_scope = %(scope)s AND state = 'available' AND tag = '' AND id >= {LOWEST_BATCH}
                 GROUP BY group_id) AS backlog) AS backlog,
       (SELECT coalesce(json_agg(json_build_array(group_id, seed_id)), '[]') FROM seen WHERE is_whole AND NOT is_ready) AS idle,
       (SELECT coalesce(array_agg(id), '{{}}') FROM jobs_throttlegroup WHERE failing_since IS NOT NULL AND id = ANY(%(groups)s)) AS failing
"""
# The error of a group that cannot be stuffed, shown on pages until it works again.
# Locks: ThrottleGroup.
_FAILS: Final[LiteralString] = """
UPDATE jobs_throttlegroup SET failing_since = coalesce(failing_since, clock_timestamp()), failing_why = %(why)s
 WHERE id = %(group)s AND owner_id = %(me)s AND (failing_since IS NULL OR failing_why <> %(why)s)
"""
_WORKS: Final[LiteralString] = """
UPDATE jobs_throttlegroup SET failing_since = NULL, failing_why = '' WHERE id = ANY(%(groups)s) AND owner_id = %(me)s
"""
_LONGEST_WHY: Final = 300
# Largest number of documents that are offered and not taken yet, for each worker. A worker takes fewer documents
# between two passes.
_BACKLOG_A_WORKER: Final = 1024


def stuff_groups(at: Pass) -> int:
    """
    Offer due documents of every group of this manager; return the number of offered documents.

    The error of a group is shown on pages. The other groups are still stuffed, and the error is raised after the last
    group.
    """
    if not at.groups:
        return 0
    groups = [group.id for group in at.groups]
    with named_rows(at.connection) as cursor:
        work = cursor.execute(
            _READ_GROUPS, {"groups": groups, "scope": at.scope, **at.cursors.parameters(groups), "now": at.now}
        ).fetchone()
    assert work is not None
    at.cursors.note_idle(work.idle, now=at.now)
    workers = at.workers
    workers.read(at.connection, scope=at.scope, now=at.now)
    if not workers.ids:
        return 0
    held = {group.id: group for group in at.groups}
    backlog = {int(group): documents for group, documents in work.backlog.items()}
    process = partial(
        stuff,
        workers=len(workers.ids),
        largest=largest_turn(workers.least_capacity),
        worker_ids=workers.ids,
        cursors=at.cursors,
    )
    wanted: list[tuple[int, Callable[..., Stuffed]]] = [
        *((group, stuff_expired) for group in work.may_expire),
        *((group, stuff_outside) for group in work.may_leave),
        *((group, process) for group in work.to_process),
        *((group, stuff_removals) for group in work.to_remove),
    ]
    most = min(_BACKLOG_A_WORKER * len(workers.ids), workers.capacity)
    room = _room(backlog, groups={group for group, _ in wanted}, most=most)
    offered: list[Stuffed] = []
    failed: dict[int, Exception] = {}
    for group, stuffing in wanted:
        if room[group] <= 0:
            continue
        try:
            offered.append(_unless_lost(partial(stuffing, group=held[group], room=room[group]), at))
        except FenceRefused:
            raise
        except psycopg.OperationalError as error:
            # The error ends the pass. If the connection is lost, the group is not the cause, so no error is stored.
            if not at.connection.closed:
                _report_failure(at, group, error)
            raise
        except Exception as error:  # noqa: BLE001 (raised below)
            failed.setdefault(group, error)
            _report_failure(at, group, error)
    if works_again := [group for group in work.failing if group not in failed and group in dict(wanted)]:
        at.connection.execute(_WORKS, {"groups": works_again, "me": at.me})
    workers.notify(
        at.connection, scope=at.scope, offered=offered, notified=work.notified, channel_of=channels.take_of, now=at.now
    )
    if failed:
        raise next(iter(failed.values()))
    return sum(one.documents for one in offered)


def _room(backlog: Mapping[int, int], *, groups: Collection[int], most: int) -> dict[int, int]:
    """
    Return the number of documents that each of these groups may offer now, at most `most` altogether.

    Each group has its own share of the backlog, so a group whose documents are not taken does not stop the other
    groups.
    """
    free = most - sum(backlog.values())
    share = max(1, most // max(1, len(groups)))
    return {group: min(share - backlog.get(group, 0), max(free, 1)) for group in groups}


def _report_failure(at: Pass, group: int, error: Exception) -> None:
    """Store the error in one line: further lines from a database may contain data of documents."""
    said = (error.diag.message_primary if isinstance(error, psycopg.Error) else None) or str(error)
    why = f"{type(error).__name__}: {said.strip().partition(chr(10))[0]}"[:_LONGEST_WHY]
    at.connection.execute(_FAILS, {"group": group, "why": why, "me": at.me})


def _unless_lost(stuffing: Callable[..., Stuffed], at: Pass) -> Stuffed:
    """Stuff one group; return the offer, an empty one for a group that was lost meanwhile."""
    began_at = time.monotonic()
    try:
        stuffed = stuffing(at.connection, manager=at.me, now=at.now)
    except FenceRefused as refused:
        if refused.fence == "group":
            return Stuffed()
        raise
    crawl.STUFFING.observe(time.monotonic() - began_at, "offered" if stuffed.documents else "nothing")
    crawl.OFFERED.add(stuffed.documents)
    crawl.OFFERED_BATCHES.add(stuffed.batches)
    return stuffed


def wake_late_lanes(at: Pass) -> int:
    """
    Wake lanes of this manager's groups that sleep although they have due documents.

    Return the number of woken lanes, and at least 1 while a fast round continues.
    """
    if not at.groups:
        return 0
    woken = at.rounds.go_on(at.connection, groups=[group.id for group in at.groups], now=at.now)
    # A result above 0 makes the duty due again immediately, which a fast round needs.
    return woken or int(at.rounds.is_fast)
