"""A loop is a tuple of duties and the rhythm in which each is due."""

import datetime as dt
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import psycopg

from nodes.fences import FenceRefused

_C = TypeVar("_C")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Duty(Generic[_C]):
    """A named piece of periodic work: `run` returns how much it moved."""

    run: Callable[[_C], int]
    every: dt.timedelta

    @property
    def name(self) -> str:
        return self.run.__name__


@dataclass(slots=True)
class Rhythm(Generic[_C]):
    """Performs the duties that are due; a duty that moved something is due again at once."""

    duties: tuple[Duty[_C], ...]
    _due_at: dict[str, float] = field(default_factory=dict)
    _moved: dict[str, int] = field(default_factory=dict)

    def hasten(self) -> None:
        """Something happened: every duty is due."""
        self._due_at.clear()

    def moved(self, run: Callable[[_C], int]) -> int:
        """How much a duty moved in the last pass."""
        return self._moved.get(run.__name__, 0)

    def perform(self, context: _C) -> int:
        """
        Perform what is due; returns how much was moved in all.

        A duty that fails is logged with its name and tried again at its next turn.

        Raises:
            FenceRefused: this process was replaced.
            psycopg.OperationalError: the connection broke; the pass is over.
        """
        moved = 0
        self._moved.clear()
        for duty in self.duties:
            if self._due_at.get(duty.name, 0.0) > time.monotonic():
                continue
            done = 0
            try:
                done = duty.run(context)
            except (FenceRefused, psycopg.OperationalError):
                raise
            except Exception:
                logger.exception("duty %s failed", duty.name)
            moved += done
            self._moved[duty.name] = done
            self._due_at[duty.name] = time.monotonic() + (0.0 if done else duty.every.total_seconds())
        return moved


def duties(*pairs: tuple[Callable[[_C], int], float]) -> tuple[Duty[_C], ...]:
    """Duties from (function, seconds) pairs."""
    return tuple(Duty(run, dt.timedelta(seconds=every)) for run, every in pairs)
