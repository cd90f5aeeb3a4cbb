"""
The front of what is ready: from which moment on a look at the lanes of a seed begins.

Lanes are looked at by the moment from which they are ready. Each turn moves its lane on, and what it leaves behind in the
index stands before all that are ready now; beside the open snapshot of a backup nobody clears it away. So who has looked
remembers where the first one was, and begins there.

It is a guess: a moment may be written later than it was read, by somebody who was slow or whose clock is. So a look
begins some seconds before the front, and now and then from the start.
"""

import datetime as dt
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, LiteralString

# To be joined to a `seed`: where to begin with its lanes that are ahead, and with the others.
FRONT: Final[LiteralString] = """
LEFT JOIN unnest(%(front_seeds)s::bigint[], %(front_ahead)s::timestamptz[], %(front_others)s::timestamptz[])
       AS front(seed_id, ahead, others) ON front.seed_id = seed.id"""

# How much older than our own a moment may be that somebody is just about to write.
_MARGIN: Final = dt.timedelta(seconds=5)
# Seconds after which all is looked at from the start again.
_FROM_THE_START: Final = 5.0


class Front:
    """What one process remembers of the groups that it owns."""

    def __init__(self) -> None:
        # By group and seed: of lanes that are ahead, and of others.
        self._of: dict[int, dict[int, tuple[dt.datetime, dt.datetime]]] = {}
        self._forgotten_at = time.monotonic()
        # Whether a look of this pass met as many lanes as one may.
        self.is_cut_off = False

    def parameters(self, groups: Iterable[int]) -> dict[str, list[Any]]:
        """Where to begin, for a statement with `FRONT` that looks at these groups; of a seed that is not named at the start."""
        if time.monotonic() - self._forgotten_at > _FROM_THE_START:
            self._forgotten_at = time.monotonic()
            self._of.clear()
        known = [(seed, *at) for group in groups for seed, at in self._of.get(group, {}).items()]
        return {
            "front_seeds": [seed for seed, _, _ in known],
            "front_ahead": [ahead for _, ahead, _ in known],
            "front_others": [others for _, _, others in known],
        }

    def note(
        self, group: int, seeds: Sequence[int], *, ahead: Mapping[str, str], others: Mapping[str, str], now: dt.datetime
    ) -> None:
        """Remember what was seen at `now`: by seed the first moment of its lanes; none where none was ready."""
        self._of[group] = {
            seed: (_front(ahead.get(str(seed)), now), _front(others.get(str(seed)), now)) for seed in seeds
        }

    def note_idle(self, seeds: Iterable[tuple[int, int]], *, now: dt.datetime) -> None:
        """Remember that nothing was ready at `now` of any of these (group, seed), as far as was seen from the start."""
        for group, seed in seeds:
            self._of.setdefault(group, {})[seed] = (now - _MARGIN, now - _MARGIN)


def _front(first: str | None, now: dt.datetime) -> dt.datetime:
    return min(dt.datetime.fromisoformat(first), now - _MARGIN) if first else now - _MARGIN
