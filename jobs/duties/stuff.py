"""Stuffing: the owner of a group keeps its workers in documents."""

import datetime as dt
from collections.abc import Callable
from functools import partial
from typing import Final, LiteralString

from jobs import channels
from jobs.duties.context import Pass
from jobs.queue.hold import Stuffed
from jobs.queue.rows import named_rows
from jobs.queue.runnable import RUNNABLE
from jobs.queue.stuff import stuff
from jobs.queue.stuff_removals import stuff_expired, stuff_outside, stuff_removals
from jobs.queue.wake import notify, sweep_lanes
from nodes.fences import FenceRefused

# The groups of mine in which a lane is ready, of those the ones with something to expire or to remove, the workers that
# live, and what is offered already.
_LOOK: Final[LiteralString] = f"""
WITH ready AS MATERIALIZED (
    SELECT DISTINCT seed.group_id, job.phase = 'active' AS to_process,
           job.phase = 'active' AND job.expire_after IS NOT NULL AS may_expire,
           job.phase = 'active' AND job.kind = 'continuous' AND job.hop_limits <> '{{}}' AS may_leave
      FROM jobs_seed AS seed JOIN jobs_job AS job ON job.id = seed.job_id
     WHERE seed.group_id = ANY(%(groups)s) AND job.phase IN ('active', 'shutting_down', 'deleting')
       AND {RUNNABLE}
       AND EXISTS (SELECT FROM jobs_lane AS lane
                    WHERE lane.seed_id = seed.id AND lane.is_ahead IN (false, true) AND lane.ready_at <= %(now)s)
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
         WHERE node_scope = %(scope)s AND state = 'available' AND tag = '')::bigint AS offered
"""
# A lane that went dormant so lately may have lost its wake-up.
_SWEPT: Final = dt.timedelta(minutes=1)


def stuff_groups(at: Pass) -> int:
    """Offer due documents of every group of this manager; returns how many."""
    if not at.groups:
        return 0
    with named_rows(at.connection) as cursor:
        work = cursor.execute(
            _LOOK, {"groups": [group.id for group in at.groups], "scope": at.scope, "now": at.now}
        ).fetchone()
    assert work is not None
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
            partial(stuff, group=held[group], room=room, workers=len(work.workers), keepers=work.workers), at
        )
    for group in work.to_remove:
        offered += _unless_lost(partial(stuff_removals, group=held[group], room=room), at)
    # Workers that are busy come by themselves when they have room; those out of work have taken all there was.
    if offered and not work.offered:
        notify(at.connection, channels.TAKE, at.scope)
    return offered


def _unless_lost(stuffing: Callable[..., Stuffed], at: Pass) -> int:
    """Stuff one group; a group that was lost meanwhile is simply not ours any more."""
    try:
        return stuffing(at.connection, manager=at.me, now=at.now).documents
    except FenceRefused as refused:
        if refused.fence == "group":
            return 0
        raise


def sweep(at: Pass) -> int:
    """Wake lanes of this manager's groups whose wake-up was lost; returns how many."""
    if not at.groups:
        return 0
    return sweep_lanes(at.connection, groups=[group.id for group in at.groups], within=_SWEPT, now=at.now)
