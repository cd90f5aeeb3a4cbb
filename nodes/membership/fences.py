"""
The fences of the cluster: locks that a write must hold, so that a replaced process cannot make it.

A fence is a lock on the row that would have to change for the write to become wrong. A transaction takes it before any
other lock (lock order: MainTerm, Node, then the rows of the crawl). So either the write commits before the change, or
it sees the change and is refused. A check without a lock (`WHERE EXISTS ...`) would admit an outdated write, because
its answer was true when it was read.

A database that went back in time may have the rows of its nodes. So the fences of node and term also compare the node's
memory with the database (`nodes/membership/incarnation.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import dict_row, tuple_row

from nodes.membership.incarnation import IS_AS_REMEMBERED, remembered, why_refused
from nodes.metrics import node_metrics

# Condition on the node's row, with the parameters of `nodes.membership.incarnation.remembered`.
MAY_WRITE: Final[LiteralString] = f"status IN ('running', 'draining') AND {IS_AS_REMEMBERED}"

# Locks: the node's row KEY SHARE. It conflicts only with the FOR UPDATE under which a node is marked failed. Heartbeats
# and foreign-key checks do not wait for it.
NODE_FENCE: Final[LiteralString] = f"SELECT 1 FROM nodes_node WHERE id = %(node_id)s AND {MAY_WRITE} FOR KEY SHARE"
# Locks: none. Explains a refusal.
_LOOK_AT_NODE: Final[LiteralString] = """
SELECT node.status, node.beats, nodes_incarnation() AS incarnation
  FROM (SELECT 1) AS always LEFT JOIN nodes_node AS node ON node.id = %(node_id)s
"""

# Locks: the scope's MainTerm SHARE. An election takes the row FOR NO KEY UPDATE and so waits for every running
# transaction of the main manager. No other transaction takes a database back in time, so the main manager's own row is
# read without a lock.
TERM_FENCE: Final[LiteralString] = f"""
SELECT 1 FROM nodes_mainterm
 WHERE scope = %(scope)s AND term = %(term)s AND main_id = %(main_id)s AND NOT resigned
   AND EXISTS (SELECT FROM nodes_node WHERE id = %(main_id)s AND {IS_AS_REMEMBERED})
   FOR SHARE
"""

# Locks: the node's row NO KEY UPDATE, in a separate transaction.
_COUNT_REFUSED: Final[LiteralString] = (
    "UPDATE nodes_node SET refused_writes = refused_writes + 1 WHERE id = %(node_id)s"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TermHeld:
    """The leadership that a main manager believes to have in one scope. Only `hold_term` proves it."""

    scope: str
    term: int
    main_id: UUID

    def as_facts(self) -> dict[str, object]:
        """Return the parameters of `TERM_FENCE`."""
        return {"scope": self.scope, "term": self.term, "main_id": self.main_id, **remembered(self.main_id)}

    def refused(self) -> "FenceRefused":
        """Return the exception to raise if the fence is closed."""
        return FenceRefused("term", scope=self.scope, term=self.term, main=self.main_id)


class FenceRefused(Exception):
    """
    A write was refused because its process was replaced. Retrying cannot help.

    `fence` is the name of the fence (node, term, group, job, claim). `facts` are the facts that the writer believed.
    """

    def __init__(self, fence: str, *, because: str = "", **facts: object) -> None:
        self.fence = fence
        self.facts: Mapping[str, object] = facts
        believed = ", ".join(f"{name} {value}" for name, value in facts.items())
        super().__init__(f"the {fence} fence refused the write: {because or f'no longer true: {believed}'}")
        # Refusals are counted here, so that no handler of the exception can forget to count.
        node_metrics.REFUSED_WRITES.add(1, fence)


def hold_node(connection: psycopg.Connection[Any], node_id: UUID) -> None:
    """
    Hold the node fence until the transaction ends.

    Raises:
        FenceRefused: the node was marked failed or has stopped, or the database went back in time.
    """
    if not _holds(connection, NODE_FENCE, {"node_id": node_id, **remembered(node_id)}):
        raise refused_node(connection, node_id)


def refused_node(connection: psycopg.Connection[Any], node_id: UUID) -> FenceRefused:
    """Return the refusal of a node's write, with the current reason from the database."""
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(_LOOK_AT_NODE, {"node_id": node_id}).fetchone()
    assert row is not None
    return FenceRefused("node", because=why_refused(node_id, row), node=node_id)


def hold_term(connection: psycopg.Connection[Any], term: TermHeld) -> None:
    """
    Hold the term fence until the transaction ends. Take it before any other lock.

    Raises:
        FenceRefused: another node is main manager, or no node is.
    """
    if not _holds(connection, TERM_FENCE, term.as_facts()):
        raise term.refused()


def count_refused(connection: psycopg.Connection[Any], node_id: UUID) -> None:
    """Count a refused write on the node's row. Call this after the refused transaction has ended."""
    connection.execute(_COUNT_REFUSED, {"node_id": node_id})


def _holds(connection: psycopg.Connection[Any], fence: str, who: Mapping[str, object]) -> bool:
    with connection.cursor(row_factory=tuple_row) as cursor:
        held = cursor.execute(fence, who).fetchone() is not None
    # A pipeline is a transaction, but the driver does not report it as one while it waits for no answer.
    is_alone = connection.pgconn.pipeline_status == PipelineStatus.OFF
    if is_alone and connection.info.transaction_status == TransactionStatus.IDLE:
        raise RuntimeError("a fence needs a transaction: without one, its lock ends with the statement")
    return held
