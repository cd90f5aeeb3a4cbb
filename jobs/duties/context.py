"""The input of a manager's duties in one pass."""

import datetime as dt
import uuid
from dataclasses import dataclass, field
from typing import Any

import psycopg

from jobs.duties.read_definitions import ReadDefinitions
from jobs.duties.sources import AskAndWait, Sources
from jobs.queries.charging import Charging
from jobs.queue.offering.cursors import LaneCursors
from jobs.queue.offering.hold import GroupHeld
from jobs.queue.offering.workers import Workers
from jobs.queue.rounds import Rounds
from nodes.membership.fences import TermHeld


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """
    One pass of a manager's loop.

    `now` is the database's time, read once. `term` is set while this manager is the main manager of its scope; `groups`
    are the groups that it owns. `sources` asks the sources of these groups, `rounds` walks over their lanes, and
    `cursors` has the cursors of their ready lanes. `workers` are the workers of the scope. `charging` has the waiting
    documents, and `definitions` the definitions of jobs, both as they were last read.
    """

    connection: psycopg.Connection[Any]
    me: uuid.UUID
    scope: str
    now: dt.datetime
    term: TermHeld | None
    groups: tuple[GroupHeld, ...]
    sources: Sources = field(default_factory=AskAndWait)
    rounds: Rounds = field(default_factory=Rounds)
    cursors: LaneCursors = field(default_factory=LaneCursors)
    workers: Workers = field(default_factory=Workers)
    charging: Charging = field(default_factory=Charging)
    definitions: ReadDefinitions = field(default_factory=ReadDefinitions)

    @property
    def held_term(self) -> TermHeld:
        """Return the term, for a duty that only a main manager performs."""
        assert self.term is not None
        return self.term
