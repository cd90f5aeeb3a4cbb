"""The duties of a loop, each with its interval and its condition, and the order in which one pass performs them."""

import datetime as dt
import logging
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, Generic, LiteralString, TypeVar

import psycopg

from jobs.metrics import crawl
from nodes.database.conflicts import CONFLICTS
from nodes.membership.fences import FenceRefused

_C = TypeVar("_C")

logger = logging.getLogger(__name__)

# Errors that end the statement of one duty and leave the connection intact: the duty got no lock in time, or the server
# lacks disk or memory. Such a duty must not delay the other duties.
_OF_ONE_DUTY: Final = (
    psycopg.errors.QueryCanceled,
    psycopg.errors.LockNotAvailable,
    *CONFLICTS,
    psycopg.errors.DiskFull,
    psycopg.errors.OutOfMemory,
)

# Longest interval of an urgent duty. An event does not make duties with a longer interval due.
_SELDOM: Final = dt.timedelta(seconds=5)
# The condition of a duty that always runs, and decides by itself whether it has work.
ALWAYS: Final[LiteralString] = "true"


@dataclass(frozen=True, slots=True)
class Duty(Generic[_C]):
    """
    Named periodic work: `run` returns the number of things that it changed.

    `call` is a condition in SQL: if it is false, the duty has no work. A loop reads the conditions of all its duties
    in one statement, so idle duties cost nothing.

    A duty with a time to `collect` moves documents that arrive in a stream. After each move it waits for this time, and
    then moves more documents together. Its moves do not change the condition of any duty.

    `in_flow` is the least pause of a duty while documents flow steadily, for work that is cheaper in larger amounts.
    """

    run: Callable[[_C], int]
    every: dt.timedelta
    call: LiteralString
    collect: dt.timedelta | None = None
    in_flow: dt.timedelta = dt.timedelta()

    @property
    def name(self) -> str:
        return self.run.__name__

    def pause(self, *, has_moved: bool, in_flow: bool) -> dt.timedelta:
        """Return the time until the duty is due again."""
        pause = (self.collect or dt.timedelta()) if has_moved else self.every
        return max(pause, self.in_flow) if in_flow else pause


@dataclass(slots=True)
class DutyRunner(Generic[_C]):
    """
    Performs the duties that are called (their conditions are true) and due (their intervals have passed).

    A duty that changed something is due again immediately, or after its time to collect. `changed` is the sum of the
    results of the last pass, without duties that collect.
    """

    duties: tuple[Duty[_C], ...]
    was_broken_off: bool = False
    changed: int = 0
    _due_at: dict[str, float] = field(default_factory=dict)

    def called(self, answers: list[bool]) -> frozenset[str]:
        """Return the names of the duties whose conditions are true, from the answers to `calls`."""
        return frozenset(duty.name for duty, is_called in zip(self.duties, answers, strict=True) if is_called)

    def speed_up(self) -> None:
        """Make all duties due now, because of an event, except the duties with a long interval, such as housekeeping."""
        seldom = {duty.name for duty in self.duties if duty.every > _SELDOM}
        self._due_at = {name: due_at for name, due_at in self._due_at.items() if name in seldom}

    def speed_up_one(self, duty: Callable[[_C], int]) -> None:
        """Make one duty due now, because of an event that concerns only this duty."""
        self._due_at.pop(duty.__name__, None)

    def perform(
        self,
        context: _C,
        *,
        called: AbstractSet[str],
        may_begin: Callable[[], bool] = lambda: True,
        in_flow: bool = False,
    ) -> int:
        """
        Perform the duties that are `called` and due, as long as `may_begin`; return the sum of their results.

        `in_flow` is true while documents flow steadily.

        A failed duty is logged with its name and tried again at its next turn. After a duty that was interrupted, the
        other duties wait for the next pass (`was_broken_off`). The duty may have waited for a lock of a dead node, and
        the next pass can mark this node as failed.

        Raises:
            FenceRefused: this process was replaced.
            psycopg.OperationalError: the connection broke, so the pass ends.
        """
        moved = self.changed = 0
        self.was_broken_off = False
        for duty in self.duties:
            if duty.name not in called or self._due_at.get(duty.name, 0.0) > time.monotonic():
                continue
            if not may_begin():
                break
            done, began_at = 0, time.monotonic()
            try:
                done = duty.run(context)
            except _OF_ONE_DUTY as error:
                logger.warning("duty %s was interrupted: %s", duty.name, error)
                crawl.DUTY_FAILURES.add(1, duty.name)
                now = time.monotonic()
                # The other duties go first: this duty waits for at least as long as it delayed them.
                self._due_at[duty.name] = now + max(duty.every.total_seconds(), now - began_at)
                self.was_broken_off = True
                break
            except (FenceRefused, psycopg.OperationalError):
                raise
            except Exception:
                logger.exception("duty %s failed", duty.name)
                crawl.DUTY_FAILURES.add(1, duty.name)
            crawl.DUTY_RUNS.add(1, duty.name)
            crawl.DUTY_SECONDS.add(time.monotonic() - began_at, duty.name)
            crawl.DUTY_MOVED.add(done, duty.name)
            moved += done
            self.changed += done if duty.collect is None else 0
            pause = duty.pause(has_moved=done > 0, in_flow=in_flow)
            self._due_at[duty.name] = time.monotonic() + pause.total_seconds()
        return moved


def duties(*rows: tuple[Callable[[_C], int], float, LiteralString] | Duty[_C]) -> tuple[Duty[_C], ...]:
    """Return duties made from (function, seconds, call). Items that are duties already stay as they are."""
    return tuple(row if isinstance(row, Duty) else Duty(row[0], dt.timedelta(seconds=row[1]), row[2]) for row in rows)


def calls(rows: tuple[Duty[_C], ...]) -> LiteralString:
    """Return an SQL expression for an array with the conditions of these duties, in the order of the duties."""
    return "ARRAY[" + ", ".join([f"({duty.call})" for duty in rows]) + "]"
