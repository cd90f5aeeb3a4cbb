"""The journal of nodes: rows for people. Each is written in the transaction of the event that it reports."""

from collections.abc import Mapping
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

_RECORD: Final[LiteralString] = """
INSERT INTO nodes_nodeevent (at, node_id, scope, kind, message, detail)
VALUES (clock_timestamp(), %(node_id)s, %(scope)s, %(kind)s, %(message)s, %(detail)s)
"""


def record(
    connection: psycopg.Connection[Any],
    *,
    node_id: UUID,
    scope: str,
    kind: str,
    message: str,
    detail: Mapping[str, object] | None = None,
) -> None:
    """Write one row of a node's journal."""
    connection.execute(
        _RECORD,
        {"node_id": node_id, "scope": scope, "kind": kind, "message": message, "detail": Jsonb(dict(detail or {}))},
    )
