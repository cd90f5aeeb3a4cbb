"""
Requests of administrators to the cluster, such as moves of groups, and the main manager's answers.

Answer and effect are one transaction under the term. If a main manager dies, each request is either answered and begun,
or the next main manager answers it. A begun move completes by itself (`duties.hand_over`), and its end is the end of
the request.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from jobs.duties.context import Pass
from jobs.duties.groups import ClusterView, begin_moves, read_cluster_view
from jobs.queue.sql.rows import named_rows
from jobs.queue.wake import notify
from jobs.state import channels
from nodes.decisions.allocate import drain, rebalance
from nodes.decisions.hand_over import MoveRefused, Release, move
from nodes.membership import leadership
from nodes.membership.fences import hold_term
from nodes.membership.journal import record

OPEN_REQUESTS: Final[LiteralString] = """
SELECT FROM nodes_clusterrequest WHERE scope = %(scope)s AND state IN ('waiting', 'in_progress')
"""
# Locks: ClusterRequest by id.
_WAITING: Final[LiteralString] = """
SELECT id, kind, item, node, dry_run, expected, asked_by FROM nodes_clusterrequest
 WHERE scope = %(scope)s AND state = 'waiting'
 ORDER BY id LIMIT 1
   FOR NO KEY UPDATE
"""
_ANSWER: Final[LiteralString] = """
UPDATE nodes_clusterrequest
   SET state = %(state)s, reason = %(reason)s, answer = %(answer)s, answered_at = clock_timestamp(),
       ended_at = CASE WHEN %(state)s <> 'in_progress' THEN clock_timestamp() END
 WHERE id = %(id)s
"""
# Ends requests for moves whose last group has left its old owner, and requests to drain a node that has ended.
_END_ARRIVED: Final[LiteralString] = """
UPDATE nodes_clusterrequest AS request SET state = 'done', ended_at = clock_timestamp()
 WHERE scope = %(scope)s AND state = 'in_progress'
   AND CASE WHEN kind = 'drain'
            THEN NOT EXISTS (SELECT FROM nodes_node AS node
                              WHERE node.id = request.node AND node.status IN ('starting', 'running', 'draining'))
            ELSE NOT EXISTS (SELECT FROM jsonb_to_recordset(request.answer -> 'moves') AS move("group" bigint, epoch bigint)
                               JOIN jobs_throttlegroup AS held
                                 ON held.id = move."group" AND held.epoch = move.epoch AND held.state = 'releasing') END
"""
_NODE: Final[LiteralString] = "SELECT id, kind, name, status FROM nodes_node WHERE id = %s"
# Locks: Node.
_LOCKED_NODE: Final[LiteralString] = "SELECT id, kind, name, status FROM nodes_node WHERE id = %s FOR NO KEY UPDATE"
_NAMES: Final[LiteralString] = """
SELECT held.id, coalesce(policy.name, seed.urls[1], '') AS name
  FROM jobs_throttlegroup AS held
  LEFT JOIN jobs_throttlepolicy AS policy ON policy.id = held.policy_id
  LEFT JOIN jobs_seed AS seed ON seed.id = held.seed_id
 WHERE held.id = ANY(%s)
"""


class _Refused(Exception):
    """A request of an administrator cannot be met. The message of the exception is the reason."""

    state = "refused"


class _Changed(_Refused):
    """A group or node is no longer in the state that the request of an administrator names."""

    state = "changed"


def answer_requests(at: Pass) -> int:
    """Answer waiting requests, and end completed ones; return the number of answered requests."""
    answered = 0
    while _answer_one(at):
        answered += 1
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        at.connection.execute(_END_ARRIVED, {"scope": at.scope})
    if answered:
        notify(at.connection, channels.GROUPS, at.scope)
    return answered


def _answer_one(at: Pass) -> bool:
    with at.connection.transaction(), named_rows(at.connection) as cursor:
        hold_term(at.connection, at.held_term)
        request = cursor.execute(_WAITING, {"scope": at.scope}).fetchone()
        if request is None:
            return False
        reason, answer = "", None
        try:
            answer, is_in_progress = _MEETING[request.kind](at, request)
            state = "in_progress" if is_in_progress else "done"
        except _Refused as refused:
            reason, state = str(refused), refused.state
        cursor.execute(_ANSWER, {"id": request.id, "state": state, "reason": reason, "answer": Jsonb(answer)})
        came_to = f"refused: {reason}" if reason else f"{len(answer['moves'])} moves" if answer else state
        record(
            at.connection,
            node_id=at.me,
            scope=at.scope,
            kind="asked",
            message=f"{request.asked_by} asked for: {request.kind}{' (dry run)' if request.dry_run else ''}; {came_to}",
            detail={"request": request.id},
        )
    return True


def _rebalance(at: Pass, request: Any) -> tuple[dict[str, Any], bool]:
    cluster_view = read_cluster_view(at.connection, scope=at.scope, now=at.now)
    moves = rebalance(items=cluster_view.items, managers=cluster_view.managers, strategy=cluster_view.strategy)
    if not request.dry_run:
        begin_moves(at.connection, moves, cluster_view=cluster_view, scope=at.scope, now=at.now)
    return _plan(at, cluster_view, moves), bool(moves) and not request.dry_run


def _move(at: Pass, request: Any) -> tuple[dict[str, Any], bool]:
    cluster_view = read_cluster_view(at.connection, scope=at.scope, now=at.now)
    item = next((item for item in cluster_view.items if item.id == request.item), None)
    if item is None:
        raise _Refused(f"Group {request.item} no longer exists.")
    # The move begins only if the group still has the epoch that was read here, so it cannot have another owner by then.
    _compare(request, {"owner": item.owner, "destination": item.destination})
    to = next((manager for manager in cluster_view.managers if manager.id == request.node), None)
    if to is None:
        raise _Refused(_why_no_manager(at, request.node))
    try:
        begun = move(item, to=to, managers=cluster_view.managers)
    except MoveRefused as refused:
        raise _Refused(str(refused)) from refused
    moves = (begun,) if begun is not None else ()
    begin_moves(at.connection, moves, cluster_view=cluster_view, scope=at.scope, now=at.now)
    return _plan(at, cluster_view, moves), bool(moves)


def _drain(at: Pass, request: Any) -> tuple[dict[str, Any] | None, bool]:
    with named_rows(at.connection) as cursor:
        node = cursor.execute(_LOCKED_NODE, (request.node,)).fetchone()
    if node is None:
        raise _Refused(f"Node {request.node} does not exist.")
    _compare(request, {"status": node.status})
    if node.status in {"stopped", "failed"}:
        raise _Refused(f"The {node.kind} {node.name} ({node.id}) is {node.status}: it has already ended.")
    cluster_view = read_cluster_view(at.connection, scope=at.scope, now=at.now)
    if node.kind == "manager" and not any(other.takes for other in cluster_view.managers if other.id != node.id):
        raise _Refused(f"The manager {node.name} ({node.id}) is the only running one. Start another one first.")
    if request.dry_run:
        moves = drain(
            items=cluster_view.items, managers=cluster_view.managers, strategy=cluster_view.strategy, node=node.id
        )
        return _plan(at, cluster_view, moves), False
    # The groups of a draining manager move as usual: the request ends when the node ends.
    leadership.drain(at.connection, node_id=node.id, term=at.held_term, reason=f"drained by {request.asked_by}")
    return None, True


_MEETING: Final = {"rebalance": _rebalance, "move": _move, "drain": _drain}


def _compare(request: Any, found: Mapping[str, object]) -> None:
    shown = {name: value if value is None else str(value) for name, value in found.items()}
    if request.expected is not None and request.expected != shown:
        now = ", ".join(f"{name} {value or 'none'}" for name, value in shown.items())
        raise _Changed(f"It was changed since you read it (now {now}). Read it again, and repeat your change.")


def _why_no_manager(at: Pass, node_id: uuid.UUID) -> str:
    with named_rows(at.connection) as cursor:
        node = cursor.execute(_NODE, (node_id,)).fetchone()
    if node is None:
        return f"Node {node_id} does not exist."
    if node.kind != "manager":
        return f"{node.name} ({node.id}) is a {node.kind}: groups belong to managers."
    return f"The manager {node.name} ({node.id}) is {node.status}. Choose a running manager."


def _plan(at: Pass, cluster_view: ClusterView, moves: Sequence[Release]) -> dict[str, Any]:
    """Return the moves, and the load of each manager before and after them."""
    names = dict(at.connection.execute(_NAMES, ([move.item for move in moves],)).fetchall())
    weights = {item.id: item.weight for item in cluster_view.items}
    to = {move.item: move.to for move in moves}
    return {
        "moves": [
            {
                "group": move.item,
                "name": names.get(move.item, ""),
                "epoch": move.epoch,
                "weight": weights[move.item],
                "owner": str(move.owner),
                "to": str(move.to),
            }
            for move in moves
        ],
        "before": _loads(cluster_view, {}),
        "after": _loads(cluster_view, to),
    }


def _loads(cluster_view: ClusterView, moved: Mapping[int, uuid.UUID]) -> list[dict[str, Any]]:
    held: dict[uuid.UUID, list[float]] = {manager.id: [] for manager in cluster_view.managers}
    for item in cluster_view.items:
        holder = moved.get(item.id, item.holder)
        if holder in held:
            held[holder].append(item.weight)
    return [
        {"manager": str(manager), "name": cluster_view.name(manager), "groups": len(weights), "weight": sum(weights)}
        for manager, weights in held.items()
    ]
