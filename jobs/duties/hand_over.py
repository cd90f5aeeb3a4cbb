"""
The owner's part of a move: withdraw unsent batches, then hand the group over.

Once the main manager has begun the move, the group's fence refuses to stuff the group. So no batch is offered after
this withdrawal. Batches that workers have taken continue and are flushed as usual.
"""

from typing import Final, LiteralString

from jobs.duties.context import Pass
from jobs.duties.groups import hand_over, read_cluster_view, unsent_batches
from jobs.queue import release
from jobs.queue.wake import notify
from jobs.state import channels
from nodes.decisions.hand_over import let_go
from nodes.decisions.items import ItemState
from nodes.membership.fences import hold_node

GROUPS_TO_HAND_OVER: Final[LiteralString] = (
    "EXISTS (SELECT FROM jobs_throttlegroup WHERE owner_id = %(me)s AND node_scope = %(scope)s AND state = 'releasing')"
)


def hand_over_groups(at: Pass) -> int:
    """Hand over the groups that are to leave this manager; return the number of these groups."""
    cluster_view = read_cluster_view(at.connection, scope=at.scope, now=at.now)
    leaving = [item.id for item in cluster_view.items if item.owner == at.me and item.state == ItemState.RELEASING]
    batches = unsent_batches(at.connection, groups=leaving, scope=at.scope)
    if batches:
        release.withdraw(at.connection, batches=batches, now=at.now)
    with at.connection.transaction():
        hold_node(at.connection, at.me)
        handed = hand_over(
            at.connection,
            let_go(items=cluster_view.items, managers=cluster_view.managers, me=at.me),
            cluster_view=cluster_view,
            scope=at.scope,
        )
    if handed:
        notify(at.connection, channels.GROUPS, at.scope)
    return len(handed)
