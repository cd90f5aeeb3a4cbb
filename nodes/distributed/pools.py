"""Which pool of a job counts: what it says itself, and for a while what it said last where it cannot say."""

import datetime as dt
from dataclasses import dataclass, replace

_EMPTY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KnownPool:
    """
    What a node knows of the pool of a job of its own: its items, and what is wrong with them, or nothing.

    `good_at` is when it was good last, in seconds of a clock that never steps back.
    """

    items: frozenset[str] = _EMPTY
    problem: str = ""
    good_at: float | None = None

    def after_success(self, items: frozenset[str], *, now: float) -> "KnownPool":
        return KnownPool(items=items, good_at=now)

    def after_failure(self, problem: str, *, keep: dt.timedelta, now: float) -> "KnownPool":
        """The last good items for as long as they are kept, and then none."""
        is_kept = self.good_at is not None and now - self.good_at < keep.total_seconds()
        return replace(self, items=self.items if is_kept else _EMPTY, problem=problem)
