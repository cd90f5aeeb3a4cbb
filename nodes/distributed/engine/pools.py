"""The pool of a job that is in use: its latest answer, or, for a while after a failure, the last good one."""

import datetime as dt
from dataclasses import dataclass, replace

_EMPTY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KnownPool:
    """
    The pool of a job of this node: its items, and the problem with them, or ''.

    `good_at` is the moment of the last good answer, in seconds of a clock that never steps back.
    """

    items: frozenset[str] = _EMPTY
    problem: str = ""
    good_at: float | None = None

    def after_success(self, items: frozenset[str], *, now: float) -> "KnownPool":
        return KnownPool(items=items, good_at=now)

    def after_failure(self, problem: str, *, keep: dt.timedelta, now: float) -> "KnownPool":
        """Return a pool with the problem. It has the last good items for the time `keep`, and then no items."""
        is_kept = self.good_at is not None and now - self.good_at < keep.total_seconds()
        return replace(self, items=self.items if is_kept else _EMPTY, problem=problem)
