"""
Moves of slots in the chaos test of partitions, and the partitions that had a host at any time.

A move of the test is one that an operator requests. The main managers carry it out between the other disturbances.
"""

import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, inf
from typing import Any, Final

import psycopg

from jobs.partitions.facts import received_facts
from jobs.partitions.move_notes import KIND, MoveRefused, read_move, read_reports, request_move
from jobs.partitions.moving import Move, MovePhase, decide, newest_move
from jobs.partitions.placement import Placement, slot_of
from jobs.partitions.slots import read_map
from tests.chaos.compared import NAMES

# Shares of its slots that a partition gives away. The last share drains the partition.
_SHARES: Final = (0.05, 0.25, 0.5, 1.0)
# Longest wait for a move that copies documents (seconds).
_COPIES_WITHIN: Final = 60.0
# Query for a running job. Its lock makes the end of the run wait until the move is requested. Then the demo waits for
# the end of the move.
_RUNS: Final = "SELECT FROM jobs_job WHERE phase = 'active' FOR SHARE"


@dataclass(slots=True)
class RequestedMove:
    """A move that was requested at the moment `at`. A check at the moment `done_at` found its end. Both are monotonic seconds."""

    kind: str
    at: float
    number: int
    giver: str
    receiver: str
    done_at: float | None = None


class Moves:
    """
    The moves of slots during one crawl. `_maps` has each map of slots, with the moment at which its move was requested.
    """

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._addresses = addresses
        with _open(addresses["a"]) as control:
            self._maps = [(0.0, read_map(control, NAMES).owners)]
        self.requested: list[RequestedMove] = []

    def request(self, kind: str, giver: str, rng: random.Random) -> bool:
        """Request a move from `giver`, or to it if it has no slots; return False if that is not possible now."""
        share, order = rng.choice(_SHARES), random.Random(rng.random())
        with suppress(psycopg.Error, MoveRefused), _open(self._addresses["a"]) as control, control.transaction():
            if control.execute(_RUNS).fetchone() is None:
                return False
            present = read_map(control, NAMES)
            own = present.slots_of(giver)
            if not own:
                giver = _other(giver)
                own = present.slots_of(giver)
            slots = order.sample(own, ceil(len(own) * share))
            at = time.monotonic()
            move = request_move(control, Placement("a", NAMES), slots=slots, targets=[_other(giver)])
            self._maps.append((at, move.to.owners))
            self.requested.append(RequestedMove(kind, at, move.number, giver, _other(giver)))
            return True
        return False

    def wait_for_copies(self) -> None:
        """Wait until the last move copies documents, or is over."""
        until = time.monotonic() + _COPIES_WITHIN
        while self.read_phase() == MovePhase.HOLDING and time.monotonic() < until:
            time.sleep(0.05)

    def read_phase(self) -> MovePhase | None:
        """Return the phase of the last requested move; None if it is unknown, or its end was already returned."""
        if not self.requested or self.requested[-1].done_at is not None:
            return None
        last = self.requested[-1]
        with suppress(psycopg.Error), _open(self._addresses["a"]) as control:
            move = read_move(control)
            # A restored control partition may have lost the move.
            if move is None or move.number < last.number:
                return MovePhase.HOLDING
            if move.phase.is_over:
                last.done_at = time.monotonic()
            return move.phase
        return None

    def had(self, partition: str, host: str, since: float, until: float) -> bool:
        """True if a partition had a host at some time between two moments (monotonic seconds)."""
        slot = slot_of(host)
        for place, (at, owners) in enumerate(self._maps):
            # The next map comes into force some time after its request, and before the request after that.
            ends_at = self._maps[place + 2][0] if place + 2 < len(self._maps) else inf
            if at <= until and ends_at >= since and owners[slot] == partition:
                return True
        return False

    def may_restore(self, partition: str, since: float) -> bool:
        """
        True if a backup of a partition that began at `since` may be restored now, while the partition stands still.

        A backup that began before the end of a move lacks the documents that the move brought (docs/scaling.md). While
        the move goes on, the giver still has them.
        """
        for place, one in enumerate(self.requested):
            if one.receiver != partition:
                continue
            is_last = place == len(self.requested) - 1
            done_at = one.done_at if one.done_at is not None or is_last else self.requested[place + 1].at
            if done_at is None and not self._has_giver_chunks(one):
                return False
            if done_at is not None and done_at > since:
                return False
        return True

    def _has_giver_chunks(self, requested: RequestedMove) -> bool:
        """
        True if the giver still has its documents, sent or unsent, because it does not know the end of the move yet.
        """
        placement = Placement(requested.giver, NAMES)
        with suppress(psycopg.Error), _open(self._addresses[requested.giver]) as giver:
            sent = [Move.from_json(fact.body) for fact in received_facts(giver, requested.giver, kind=KIND)]
            move = newest_move(read_move(giver), sent, leads=placement.is_control)
            if move is not None and placement.is_control:
                move = decide(move, read_reports(giver, placement), NAMES, control="a")
            return move is None or move.number < requested.number or not move.phase.is_over
        return False


def _other(partition: str) -> str:
    return next(name for name in NAMES if name != partition)


def _open(address: str) -> "psycopg.Connection[Any]":
    return psycopg.connect(address, autocommit=True, connect_timeout=2)
