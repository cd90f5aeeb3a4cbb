"""
Cursors of ready lanes: the moment from which a scan of a seed's lanes starts.

Lanes are scanned in the order in which they become ready. Each turn moves its lane to a later moment. The lane's old
entry stays in the index, before the entries of all lanes that are ready now. While a backup has a snapshot open, vacuum
cannot remove these entries. So each scan remembers where it found the first lane, and the next one starts there.

The cursor is a guess: a slow process, or one with a slow clock, may write an earlier moment. So a scan starts some
seconds before the cursor, and regularly from the start.
"""

import datetime as dt
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, LiteralString

# A join to `seed` that gives two starts of scans: for the lanes that are ahead, and for the seed's other lanes.
JOIN_CURSORS: Final[LiteralString] = """
LEFT JOIN unnest(%(cursor_seeds)s::bigint[], %(cursor_ahead)s::timestamptz[], %(cursor_others)s::timestamptz[])
       AS cursors(seed_id, ahead, others) ON cursors.seed_id = seed.id"""

# Largest time by which the ready moments that another process writes may be in the past.
_MARGIN: Final = dt.timedelta(seconds=5)
# Interval of scans from the start (seconds).
_FROM_THE_START: Final = 5.0


class LaneCursors:
    """The cursors of one process, for the groups that it owns."""

    def __init__(self) -> None:
        # By group and seed: the cursors of lanes that are ahead, and of other lanes.
        self._of: dict[int, dict[int, tuple[dt.datetime, dt.datetime]]] = {}
        self._forgotten_at = time.monotonic()
        # True if a scan of this pass reached its limit of lanes.
        self.is_cut_off = False

    def parameters(self, groups: Iterable[int]) -> dict[str, list[Any]]:
        """
        Return the cursors of these groups, for a statement with `JOIN_CURSORS`. Seeds without a cursor start at the
        beginning.
        """
        if time.monotonic() - self._forgotten_at > _FROM_THE_START:
            self._forgotten_at = time.monotonic()
            self._of.clear()
        known = [(seed, *at) for group in groups for seed, at in self._of.get(group, {}).items()]
        return {
            "cursor_seeds": [seed for seed, _, _ in known],
            "cursor_ahead": [ahead for _, ahead, _ in known],
            "cursor_others": [others for _, _, others in known],
        }

    def note(
        self, group: int, seeds: Sequence[int], *, ahead: Mapping[str, str], others: Mapping[str, str], now: dt.datetime
    ) -> None:
        """
        Store the result of a scan at `now`: the first ready moment of each seed's lanes, and no entry for a seed
        without a ready lane.
        """
        self._of[group] = {
            seed: (_cursor(ahead.get(str(seed)), now), _cursor(others.get(str(seed)), now)) for seed in seeds
        }

    def note_idle(self, seeds: Iterable[tuple[int, int]], *, now: dt.datetime) -> None:
        """Store that no lane of these (group, seed) pairs was ready at `now`, according to a scan from the start."""
        for group, seed in seeds:
            self._of.setdefault(group, {})[seed] = (now - _MARGIN, now - _MARGIN)


def _cursor(first: str | None, now: dt.datetime) -> dt.datetime:
    return min(dt.datetime.fromisoformat(first), now - _MARGIN) if first else now - _MARGIN
