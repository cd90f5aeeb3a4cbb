"""The content of the cluster's page: the main manager, the owners of groups, moves, and invariants."""

import datetime as dt
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.db import connection

from jobs.models import InvariantCheck
from jobs.queries.cluster.failing_groups import FailingGroup, read_failing_groups
from jobs.queries.cluster.nodes import NodeLine, read_live_nodes
from jobs.queries.cluster.requests import PlanInBrief, progress_of, read_plans
from jobs.queries.frequent_queries import FrequentQuery
from nodes.lifecycle import CLUSTER_SCOPE, NodeKind, NodeStatus
from nodes.models import ClusterRequest, MainTerm, NodeEvent

EVENTS_SHOWN: Final = 15
TERMS_SHOWN: Final = 6
REQUESTS_SHOWN: Final = 5
# Largest number of nodes of each kind on the page: the main manager first, then silent nodes. More would be unreadable.
NODES_SHOWN: Final = 40
# Largest numbers of groups on the page: of one manager, and of all managers together. The heaviest groups are shown.
_GROUPS_SHOWN: Final = 24
_GROUPS_SHOWN_IN_ALL: Final = 240

_GROUPS: Final = """
WITH ranked AS MATERIALIZED (
    SELECT id, owner_id, state, weight, policy_id, seed_id, destination_id,
           count(*) OVER of_owner AS in_all, sum(weight) OVER of_owner AS weight_in_all,
           row_number() OVER (of_owner ORDER BY weight DESC, id) AS rank
      FROM jobs_throttlegroup WHERE node_scope = %(scope)s
    WINDOW of_owner AS (PARTITION BY owner_id)
), shown AS MATERIALIZED (SELECT * FROM ranked WHERE rank <= %(shown)s
)
SELECT held.id, held.owner_id, held.state, held.weight,
       coalesce((SELECT name FROM jobs_throttlepolicy WHERE id = held.policy_id),
                (SELECT urls[1] FROM jobs_seed WHERE id = held.seed_id), '') AS name,
       (SELECT name FROM nodes_node WHERE id = held.destination_id) AS destination, held.in_all, held.weight_in_all, held.rank
  FROM shown AS held
 ORDER BY owner_id, rank
"""
_GROUP: Final = """
SELECT held.id, held.owner_id, held.state, held.weight, coalesce(policy.name, seed.urls[1], '') AS name,
       (SELECT count(*) FROM jobs_seed AS one WHERE one.group_id = held.id) AS seeds
  FROM jobs_throttlegroup AS held
  LEFT JOIN jobs_throttlepolicy AS policy ON policy.id = held.policy_id
  LEFT JOIN jobs_seed AS seed ON seed.id = held.seed_id
 WHERE held.id = %(group)s AND held.node_scope = %(scope)s
"""
_CARRIED: Final = """
SELECT owner_id, count(*), sum(weight) FROM jobs_throttlegroup WHERE node_scope = %(scope)s GROUP BY owner_id
"""
_OF_THE_CLUSTER: Final = NodeEvent.objects.filter(scope=CLUSTER_SCOPE).order_by("-at", "-id")
_OF_AN_EVENT: Final = ("pk", "at", "kind", "node__name", "message", "detail")
_EVENTS: Final = FrequentQuery(lambda: _OF_THE_CLUSTER.values_list(*_OF_AN_EVENT)[:EVENTS_SHOWN])
_TERMS: Final = FrequentQuery(
    lambda: _OF_THE_CLUSTER.filter(kind=NodeEvent.Kind.ELECTED).values_list(*_OF_AN_EVENT)[:TERMS_SHOWN]
)
_TERM: Final = FrequentQuery(
    lambda: MainTerm.objects.filter(scope=CLUSTER_SCOPE).values_list("term", "since", "main", "resigned")
)
_CHECKS: Final = FrequentQuery(lambda: InvariantCheck.objects.values_list("name", "checked_at", "found", "example"))


class GroupTile(NamedTuple):
    """A group of seeds. `destination` is the name of the manager to which it moves; '' if it stays."""

    id: int
    name: str
    weight: float
    is_moving: bool
    destination: str


@dataclass(frozen=True, slots=True)
class Held:
    """
    The groups of one manager, or the groups without a manager: the heaviest ones, and the number and the weight of all.
    """

    groups: Sequence[GroupTile] = ()
    in_all: int = 0
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class TermLine:
    """The present term of the main manager; 0 before the first term. `main` is None while there is no main manager."""

    term: int
    since: dt.datetime | None
    main: uuid.UUID | None


@dataclass(frozen=True, slots=True)
class EventLine:
    id: int
    at: dt.datetime
    kind: str
    node: str
    message: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RequestLine:
    """
    A request to the cluster. `moves` is the number of groups that it moves, and `arrived` the number of groups that
    have arrived.
    """

    id: int
    kind: str
    dry_run: bool
    asked_by: str
    asked_at: dt.datetime
    state: str
    reason: str
    moves: int
    arrived: int


@dataclass(frozen=True, slots=True)
class CheckLine:
    """
    An invariant and its last check. `checked_at` is None before the first check. `found` is None if the check took too
    long.
    """

    name: str
    says: str
    checked_at: dt.datetime | None
    found: int | None
    example: str


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums over all live nodes of the shared scope, shown or not."""

    managers: int
    workers: int
    groups: int
    batches: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class ClusterPage:
    """The live nodes of the shared scope, up to the limits of the page. `free` are groups without an owner."""

    # Moment at which the page was read, by the clock of the cluster's database.
    read_at: dt.datetime
    term: TermLine
    totals: Totals
    managers: Sequence[NodeLine]
    workers: Sequence[NodeLine]
    held: Mapping[uuid.UUID, Held]
    free: Held
    terms: Sequence[EventLine]
    events: Sequence[EventLine]
    requests: Sequence[RequestLine]
    checks: Sequence[CheckLine]
    failing: Sequence[FailingGroup]


class PossibleOwner(NamedTuple):
    """A running manager that could own a group, with the number and the weight of its groups."""

    node: NodeLine
    groups: int
    weight: float


class MovableGroup(NamedTuple):
    """One group before it is moved, and the managers that could own it."""

    id: int
    name: str
    weight: float
    seeds: int
    is_moving: bool
    owner: NodeLine | None
    carriers: Sequence[PossibleOwner]


def read_cluster_page(*, now: dt.datetime) -> ClusterPage:
    nodes = _nodes_of_the_cluster()
    managers = [node for node in nodes if node.kind == NodeKind.MANAGER]
    workers = [node for node in nodes if node.kind == NodeKind.WORKER]
    shown = _shown(managers, now=now)
    held = _read_groups(of_each=max(1, min(_GROUPS_SHOWN, _GROUPS_SHOWN_IN_ALL // max(1, len(shown)))))
    return ClusterPage(
        read_at=now,
        term=_read_term(),
        totals=Totals(
            managers=len(managers),
            workers=len(workers),
            groups=sum(of_owner.in_all for of_owner in held.values()),
            batches=sum(node.batches for node in workers),
            in_flight=sum(node.in_flight for node in workers),
        ),
        managers=shown,
        workers=_shown(workers, now=now),
        held={owner: found for owner, found in held.items() if owner is not None},
        free=held.get(None, Held()),
        terms=[_event(*row) for row in _TERMS.rows()],
        events=[_event(*row) for row in _EVENTS.rows()],
        requests=_read_requests(),
        checks=_read_checks(),
        failing=read_failing_groups(),
    )


def read_group(group_id: int) -> MovableGroup | None:
    """Return one group with the managers that could own it; None if it does not exist."""
    with connection.cursor() as cursor:
        cursor.execute(_GROUP, {"group": group_id, "scope": CLUSTER_SCOPE})
        row = cursor.fetchone()
    if row is None:
        return None
    found, owner_id, state, weight, name, seeds = row
    managers = [node for node in _nodes_of_the_cluster() if node.kind == NodeKind.MANAGER]
    owner = next((node for node in managers if node.id == owner_id), None)
    return MovableGroup(found, name, weight, seeds, state == "releasing", owner, _read_possible_owners(managers, owner))


def read_node_of_the_cluster(node_id: uuid.UUID) -> NodeLine | None:
    """Return the live node of the shared scope with this id; None if there is no such node."""
    return next((node for node in _nodes_of_the_cluster() if node.id == node_id), None)


def _nodes_of_the_cluster() -> list[NodeLine]:
    return [node for node in read_live_nodes() if node.scope == CLUSTER_SCOPE]


def _shown(nodes: Sequence[NodeLine], *, now: dt.datetime) -> Sequence[NodeLine]:
    if len(nodes) <= NODES_SHOWN:
        return nodes
    return sorted(nodes, key=lambda node: (not node.is_main, not node.is_silent(now=now), node.name))[:NODES_SHOWN]


def _read_possible_owners(managers: Sequence[NodeLine], owner: NodeLine | None) -> list[PossibleOwner]:
    """Return the running managers except the owner, with the least load first."""
    with connection.cursor() as cursor:
        cursor.execute(_CARRIED, {"scope": CLUSTER_SCOPE})
        carried = {node_id: (groups, weight) for node_id, groups, weight in cursor.fetchall()}
    found = [
        PossibleOwner(node, *carried.get(node.id, (0, 0.0)))
        for node in managers
        if node is not owner and node.status == NodeStatus.RUNNING
    ]
    return sorted(found, key=lambda carrier: (carrier.weight, carrier.node.name))


def _read_term() -> TermLine:
    for term, since, main, resigned in _TERM.rows():
        return TermLine(term, since, None if resigned else main)
    return TermLine(0, None, None)


def _read_groups(*, of_each: int) -> dict[uuid.UUID | None, Held]:
    with connection.cursor() as cursor:
        cursor.execute(_GROUPS, {"scope": CLUSTER_SCOPE, "shown": of_each})
        rows = cursor.fetchall()
    held: dict[uuid.UUID | None, Held] = {}
    for group_id, owner, state, weight, name, destination, in_all, weight_in_all, _rank in rows:
        tile = GroupTile(group_id, name, weight, state == "releasing", destination or "")
        before = held.get(owner, Held())
        held[owner] = Held([*before.groups, tile], in_all, weight_in_all)
    return held


def _event(key: int, at: dt.datetime, kind: str, node: str | None, message: str, detail: str) -> EventLine:
    return EventLine(key, at, kind, node or "", message, json.loads(detail))


def _read_requests() -> list[RequestLine]:
    requests = list(ClusterRequest.objects.filter(scope=CLUSTER_SCOPE).defer("answer")[:REQUESTS_SHOWN])
    plans = read_plans(requests)
    return [_request(request, plans.get(request.pk)) for request in requests]


def _request(request: ClusterRequest, plan: PlanInBrief | None) -> RequestLine:
    return RequestLine(
        id=request.pk,
        kind=str(request.get_kind_display()),
        dry_run=request.dry_run,
        asked_by=request.asked_by,
        asked_at=request.asked_at,
        state=request.state,
        reason=request.reason,
        **progress_of(request, plan),
    )


def _read_checks() -> list[CheckLine]:
    stored = {name: known for name, *known in _CHECKS.rows()}
    return [
        CheckLine(name.value, str(name.label), *stored.get(name.value, (None, None, "")))
        for name in InvariantCheck.Name
    ]
