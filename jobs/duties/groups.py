"""
Throttle groups and managers as input of `nodes.decisions`, and writes of its decisions.

Each write checks the epoch that was read. A group that changed meanwhile is skipped, and read again in the next pass.
"""

import datetime as dt
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from jobs.queue.sql.low_water import LOWEST_BATCH
from jobs.queue.sql.rows import named_rows
from jobs.settings.table import BALANCE
from nodes.assignment.evenly import evenly
from nodes.assignment.strategy import Strategy
from nodes.assignment.weighted import weighted
from nodes.decisions.allocate import Give
from nodes.decisions.hand_over import LetGo, Release, TakeBack
from nodes.decisions.items import ItemSeen, ItemState, ManagerSeen, item_sources_of
from nodes.lifecycle import NodeStatus
from nodes.membership.journal import record
from nodes.settings.running import current

# Phases of a job in which its seeds run, so that the owners of the groups of these seeds have work for it.
RUNNING: Final[LiteralString] = (
    "('ready_for_startup', 'starting_up', 'active', 'shutting_down', 'ready_for_delete', 'delete_starting_up',"
    " 'deleting')"
)

_MANAGERS: Final[LiteralString] = """
SELECT id, name, status, extract(epoch FROM clock_timestamp() - heartbeat_at) > timeout_seconds AS is_silent
  FROM nodes_node
 WHERE scope = %(scope)s AND kind = 'manager' AND status IN ('starting', 'running', 'draining')
 ORDER BY started_at, id
"""
# Groups with their number of running seeds, which is 0 for a group that will be deleted.
_ITEMS: Final[LiteralString] = f"""
SELECT held.id, held.owner_id, held.epoch, held.state, held.destination_id,
       coalesce(extract(epoch FROM %(now)s - held.releasing_since), 0)::float AS releasing_for,
       coalesce(running.seeds, 0) AS seeds
  FROM jobs_throttlegroup AS held
  LEFT JOIN (SELECT seed.group_id, count(*) AS seeds
               FROM jobs_job AS job JOIN jobs_seed AS seed ON seed.job_id = job.id
              WHERE job.node_scope = %(scope)s AND job.phase IN {RUNNING}
              GROUP BY seed.group_id) AS running ON running.group_id = held.id
 WHERE held.node_scope = %(scope)s
 ORDER BY held.id
"""
# Documents a second that workers took of each group.
_LOADS: Final[LiteralString] = """
SELECT group_id, sum(documents) / extract(epoch FROM %(over)s::interval)::float AS load FROM jobs_batch
 WHERE node_scope = %(scope)s AND sent_at > clock_timestamp() - %(over)s::interval
 GROUP BY group_id
"""
_LOAD_PERIOD: Final = dt.timedelta(minutes=5)
# Least load of a group. A new group has no load yet. It must count nevertheless, so that the next group goes to another
# manager.
_LEAST_LOAD: Final = 0.1
# Locks: ThrottleGroup by id. The conditions check the epoch and the state that were read.
_LOCK: Final[LiteralString] = """
SELECT held.id FROM jobs_throttlegroup AS held
  JOIN unnest(%(items)s::bigint[], %(epochs)s::bigint[]) AS seen(id, epoch) ON seen.id = held.id AND seen.epoch = held.epoch
 WHERE held.state = ANY(%(states)s)
 ORDER BY held.id
   FOR NO KEY UPDATE OF held
"""
_GIVE: Final[LiteralString] = """
UPDATE jobs_throttlegroup AS held
   SET owner_id = given.owner, epoch = held.epoch + 1, state = CASE WHEN given.owner IS NULL THEN 'free' ELSE 'owned' END,
       destination_id = NULL, releasing_since = NULL
  FROM unnest(%(items)s::bigint[], %(to)s::uuid[]) AS given(id, owner)
 WHERE held.id = given.id AND held.id = ANY(%(locked)s)
"""
_RELEASE: Final[LiteralString] = """
UPDATE jobs_throttlegroup AS held
   SET state = 'releasing', destination_id = given.owner, releasing_since = %(now)s
  FROM unnest(%(items)s::bigint[], %(to)s::uuid[]) AS given(id, owner)
 WHERE held.id = given.id AND held.id = ANY(%(locked)s)
"""
_WEIGH: Final[LiteralString] = """
UPDATE jobs_throttlegroup AS held SET weight = weighed.weight
  FROM unnest(%(items)s::bigint[], %(weights)s::float[]) AS weighed(id, weight)
 WHERE held.id = weighed.id AND held.weight <> weighed.weight
"""
_UNSENT: Final[LiteralString] = f"""
SELECT id FROM jobs_batch
 WHERE node_scope = %(scope)s AND state = 'available' AND id >= {LOWEST_BATCH} AND group_id = ANY(%(groups)s)
"""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """
    The groups and the managers of one scope at one moment.

    `names` are the names of the managers, and `strategy` is the balance of the groups.
    """

    items: tuple[ItemSeen, ...]
    managers: tuple[ManagerSeen, ...]
    names: Mapping[uuid.UUID, str]
    strategy: Strategy

    def name(self, node_id: uuid.UUID | None) -> str:
        return self.names.get(node_id, str(node_id)) if node_id is not None else "nobody"


def read_cluster_view(connection: psycopg.Connection[Any], *, scope: str, now: dt.datetime) -> ClusterView:
    """Return the groups with their owners and weights, and the managers that can own them."""
    with named_rows(connection) as cursor:
        managers = cursor.execute(_MANAGERS, {"scope": scope}).fetchall()
        groups = cursor.execute(_ITEMS, {"scope": scope, "now": now}).fetchall()
        weights = {row.id: float(row.seeds) for row in groups}
        balance = current()[BALANCE]
        if balance == "LOAD":
            loads = dict(cursor.execute(_LOADS, {"scope": scope, "over": _LOAD_PERIOD}).fetchall())
            weights = {group: max(loads.get(group, 0.0), _LEAST_LOAD) for group in weights}
    return ClusterView(
        items=tuple(
            ItemSeen(
                id=row.id,
                owner=row.owner_id,
                epoch=row.epoch,
                state=ItemState(row.state),
                weight=weights[row.id],
                destination=row.destination_id,
                releasing_for=dt.timedelta(seconds=row.releasing_for),
            )
            for row in groups
        ),
        managers=tuple(
            ManagerSeen(id=row.id, status=NodeStatus(row.status), is_silent=row.is_silent) for row in managers
        ),
        names={row.id: row.name for row in managers},
        strategy=evenly if balance == "GROUPS" else weighted,
    )


def give(
    connection: psycopg.Connection[Any], actions: Iterable[Give | TakeBack], *, cluster_view: ClusterView, scope: str
) -> set[int]:
    """
    Give groups to new owners, effective immediately. Return the groups. Called in a transaction of the main manager.
    """
    wanted = list(actions)
    given = {
        group
        for kind, cause in ((Give, "give"), (TakeBack, "take_back"))
        for group in _write(connection, _GIVE, [action for action in wanted if isinstance(action, kind)], cause=cause)
    }
    for owner, groups in _by_node(wanted, only=given).items():
        record(
            connection,
            node_id=owner,
            scope=scope,
            kind="given",
            message=f"manager {cluster_view.name(owner)} was given {_groups(len(groups))}",
            detail={"groups": groups},
        )
    return given


def begin_moves(
    connection: psycopg.Connection[Any],
    actions: Iterable[Release],
    *,
    cluster_view: ClusterView,
    scope: str,
    now: dt.datetime,
) -> set[int]:
    """
    Ask the owners of these groups to hand them over to other managers. Return the groups. The caller is in a
    transaction of the main manager.
    """
    wanted = list(actions)
    begun = _write(connection, _RELEASE, wanted, cause="release", now=now)
    by_owner: dict[uuid.UUID, list[Release]] = defaultdict(list)
    for action in wanted:
        if action.item in begun:
            by_owner[action.owner].append(action)
    for owner, moves in by_owner.items():
        record(
            connection,
            node_id=owner,
            scope=scope,
            kind="moving",
            message=f"manager {cluster_view.name(owner)} is to hand over {_groups(len(moves))}",
            detail={"moves": [{"group": move.item, "to": str(move.to)} for move in moves]},
        )
    return begun


def hand_over(
    connection: psycopg.Connection[Any], actions: Sequence[LetGo], *, cluster_view: ClusterView, scope: str
) -> set[int]:
    """Hand groups over to their new owners. Return the groups. Called in a transaction of the old owner."""
    let_go = _write(connection, _GIVE, actions, cause="hand_over")
    if let_go:
        me = actions[0].owner
        moves = [
            {"group": action.item, "to": str(action.to) if action.to else None}
            for action in actions
            if action.item in let_go
        ]
        record(
            connection,
            node_id=me,
            scope=scope,
            kind="handed_over",
            message=f"manager {cluster_view.name(me)} handed over {_groups(len(moves))}",
            detail={"moves": moves},
        )
    return let_go


def write_weights(connection: psycopg.Connection[Any], items: Sequence[ItemSeen]) -> None:
    """Store the weight that each group had when the groups were balanced. Pages show it."""
    connection.execute(_WEIGH, {"items": [item.id for item in items], "weights": [item.weight for item in items]})


def unsent_batches(connection: psycopg.Connection[Any], *, groups: Sequence[int], scope: str) -> list[int]:
    """Return the batches of these groups that no worker has taken yet."""
    return [row[0] for row in connection.execute(_UNSENT, {"groups": list(groups), "scope": scope})]


def _write(
    connection: psycopg.Connection[Any],
    statement: LiteralString,
    actions: Sequence[Give | Release | TakeBack | LetGo],
    *,
    cause: str,
    now: dt.datetime | None = None,
) -> set[int]:
    """
    Lock and write the groups. Skip a group if it changed since it was read, or if its state does not allow a change
    with this cause. Return the written groups.
    """
    if not actions:
        return set()
    facts = {
        "items": [action.item for action in actions],
        "epochs": [action.epoch for action in actions],
        "to": [action.to for action in actions],
        "states": list(item_sources_of(cause)),
        "now": now,
    }
    locked = {row[0] for row in connection.execute(_LOCK, facts)}
    connection.execute(statement, facts | {"locked": list(locked)})
    return locked


def _by_node(actions: Iterable[Give | TakeBack], *, only: AbstractSet[int]) -> dict[uuid.UUID, list[int]]:
    found: dict[uuid.UUID, list[int]] = defaultdict(list)
    for action in actions:
        if action.item in only:
            found[action.to].append(action.item)
    return found


def _groups(count: int) -> str:
    return "1 group" if count == 1 else f"{count:,} groups"
