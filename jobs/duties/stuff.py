"""Stuffing: the owner of a group keeps its workers in documents."""

import time
from collections.abc import Callable
from functools import partial
from typing import Final, LiteralString

from jobs import channels
from jobs.duties.context import Pass
from jobs.metrics import crawl
from jobs.queue.floor import LOWEST_BATCH
from jobs.queue.front import FRONT
from jobs.queue.hold import Stuffed
from jobs.queue.rows import named_rows
from jobs.queue.runnable import RUNNABLE
from jobs.queue.stuff import stuff
from jobs.queue.stuff_removals import stuff_expired, stuff_outside, stuff_removals
from jobs.queue.wake import notify
from nodes.fences import FenceRefused

# The groups of mine in which a lane is ready, of those the ones with something to expire or to remove, the workers that
# live, and what is offered already; and the seeds of which no lane is ready, as far as they were looked at from the start.
_LOOK: Final[LiteralString] = f"""
WITH seen AS MATERIALIZED (
    SELECT seed.group_id, seed.id AS seed_id, job.phase = 'active' AS to_process,
           job.phase = 'active' AND job.expire_after IS NOT NULL AS may_expire,
           job.phase = 'active' AND job.kind = 'continuous' AND job.hop_limits <> '{{}}' AS may_leave,
           front.seed_id IS NULL AS is_whole,
           EXISTS (SELECT FROM jobs_lanestate AS lane WHERE lane.seed_id = seed.id AND NOT lane.is_ahead
                      AND lane.ready_at >= coalesce(front.others, '-infinity') AND lane.ready_at <= %(now)s)
           OR EXISTS (SELECT FROM jobs_lanestate AS lane WHERE lane.seed_id = seed.id AND lane.is_ahead
                         AND lane.ready_at >= coalesce(front.ahead, '-infinity') AND lane.ready_at <= %(now)s) AS is_ready
      FROM jobs_seed AS seed JOIN jobs_job AS job ON job.id = seed.job_id
      {FRONT}
     WHERE seed.group_id = ANY(%(groups)s) AND job.phase IN ('active', 'shutting_down', 'deleting')
       AND {RUNNABLE}
), ready AS (
    SELECT DISTINCT group_id, to_process, may_expire, may_leave FROM seen WHERE is_ready
)
SELECT (SELECT coalesce(array_agg(DISTINCT group_id), '{{}}') FROM ready WHERE to_process) AS to_process,
       (SELECT coalesce(array_agg(DISTINCT group_id), '{{}}') FROM ready WHERE may_expire) AS may_expire,
       (SELECT coalesce(array_agg(DISTINCT group_id), '{{}}') FROM ready WHERE may_leave) AS may_leave,
       (SELECT coalesce(array_agg(DISTINCT group_id), '{{}}') FROM ready WHERE NOT to_process) AS to_remove,
       (SELECT coalesce(array_agg(id), '{{}}') FROM nodes_node
         WHERE scope = %(scope)s AND kind = 'worker' AND status = 'running') AS workers,
       (SELECT coalesce(sum(capacity), 0) FROM nodes_node
         WHERE scope = %(scope)s AND kind = 'worker' AND status = 'running')::bigint AS capacity,
       (SELECT coalesce(sum(documents), 0) FROM jobs_batch
         WHERE node_scope = %(scope)s AND state = 'available' AND tag = '' AND id >= {LOWEST_BATCH})::bigint AS offered,
       (SELECT coalesce(json_agg(json_build_array(group_id, seed_id)), '[]') FROM seen WHERE is_whole AND NOT is_ready) AS idle
"""


def stuff_groups(at: Pass) -> int:
    """Offer due documents of every group of this manager; returns how many."""
    if not at.groups:
        return 0
    groups = [group.id for group in at.groups]
    with named_rows(at.connection) as cursor:
        work = cursor.execute(
            _LOOK, {"groups": groups, "scope": at.scope, **at.front.parameters(groups), "now": at.now}
        ).fetchone()
    assert work is not None
    at.front.note_idle(work.idle, now=at.now)
    if not work.workers:
        return 0
    held = {group.id: group for group in at.groups}
    # Each group with ready lanes may always hold its share of the backlog.
    share = max(work.capacity - work.offered, 0) // max(1, len(work.to_process) + len(work.to_remove))
    room = max(share, 1)
    offered = 0
    for group in work.may_expire:
        offered += _unless_lost(partial(stuff_expired, group=held[group], room=room), at)
    for group in work.may_leave:
        offered += _unless_lost(partial(stuff_outside, group=held[group], room=room), at)
    for group in work.to_process:
        offered += _unless_lost(
            partial(
                stuff,
                group=held[group],
                room=room,
                workers=len(work.workers),
                keepers=work.workers,
                front=at.front,
            ),
            at,
        )
    for group in work.to_remove:
        offered += _unless_lost(partial(stuff_removals, group=held[group], room=room), at)
    # Workers that are busy come by themselves when they have room; those out of work have taken all there was.
    if offered and not work.offered:
        notify(at.connection, channels.TAKE, at.scope)
    return offered


def _unless_lost(stuffing: Callable[..., Stuffed], at: Pass) -> int:
    """Stuff one group; a group that was lost meanwhile is simply not ours any more."""
    began_at = time.monotonic()
    try:
        stuffed = stuffing(at.connection, manager=at.me, now=at.now)
    except FenceRefused as refused:
        if refused.fence == "group":
            return 0
        raise
    crawl.STUFFING.observe(time.monotonic() - began_at, "offered" if stuffed.documents else "nothing")
    crawl.OFFERED.add(stuffed.documents)
    crawl.OFFERED_BATCHES.add(stuffed.batches)
    return stuffed.documents


def sweep(at: Pass) -> int:
    """Wake lanes of this manager's groups whose wake-up was lost; returns how many."""
    if not at.groups:
        return 0
    return at.sweep.look(at.connection, groups=[group.id for group in at.groups], now=at.now)
