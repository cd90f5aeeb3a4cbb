"""
Collects the plan and the cost of each statement of a connection, as the server reports them.

Debian's PostgreSQL has auto_explain, which explains a statement during its one execution. So it reports the program's
own statements with their own parameters, including plans that the driver prepared.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import psycopg
from psycopg.errors import Diagnostic

MODULE: Final = "auto_explain"
_SETTINGS: Final = {
    "log_min_duration": "0",
    "log_analyze": "on",
    "log_buffers": "on",
    # Timing reads the clock twice for each row.
    "log_timing": "off",
    "log_format": "json",
    "log_level": "notice",
}
_PLANS: Final = "plan:\n"

Plan = dict[str, Any]


@dataclass(frozen=True)
class Explained:
    """One statement: its text and the figures of PostgreSQL's plan."""

    text: str
    plan: Plan

    @cached_property
    def nodes(self) -> list[Plan]:
        return list(_nodes_of(self.plan))

    @property
    def buffers(self) -> int:
        """
        Return the shared buffers that the statement touched, found in memory or not.

        The figures of a plan node include those of its children. A data-modifying CTE that no other node reads runs at
        the end, and no other node includes its figures, so they are added.
        """
        asked = {node["CTE Name"] for node in self.nodes if node["Node Type"] == "CTE Scan"}
        alone = [
            node
            for node in self.nodes
            if node["Node Type"] == "ModifyTable"
            and node.get("Subplan Name", "").startswith("CTE ")
            and node["Subplan Name"].removeprefix("CTE ") not in asked
        ]
        return sum(node["Shared Hit Blocks"] + node["Shared Read Blocks"] for node in [self.plan, *alone])

    @property
    def read_whole(self) -> set[str]:
        """Return the tables that were read from their first row to their last."""
        return {node["Relation Name"] for node in self.nodes if node["Node Type"] == "Seq Scan"}

    @property
    def indexes(self) -> set[str]:
        return {node["Index Name"] for node in self.nodes if "Index Name" in node}


@contextmanager
def explaining(connection: psycopg.Connection[Any]) -> Iterator[list[Explained]]:
    """Yield a list that receives each statement on `connection` as it runs. The connection's user is a superuser."""
    found: list[Explained] = []

    def keep_plan(notice: Diagnostic) -> None:
        _, has_plan, told = (notice.message_primary or "").partition(_PLANS)
        if has_plan:
            explained = json.loads(told)
            found.append(Explained(text=explained["Query Text"], plan=explained["Plan"]))

    connection.execute(f"LOAD '{MODULE}'")
    connection.add_notice_handler(keep_plan)
    for name, value in _SETTINGS.items():
        connection.execute(f"SET {MODULE}.{name} = {value}")
    found.clear()
    try:
        yield found
    finally:
        connection.execute(f"SET {MODULE}.log_min_duration = -1")
        connection.remove_notice_handler(keep_plan)


def _nodes_of(plan: Plan) -> Iterator[Plan]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes_of(below)
