"""What keeps the cluster right, each by its name, so that a mutant can do without it."""

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """All rules hold, unless one is switched off to see whether anybody notices."""

    # A mark waits for the writes of the node that are under way, or ends them.
    node_lock: bool = True
    # A write of the main asks whether its term is still the last one ...
    term_check: bool = True
    # ... and an election waits until the write has come to its end.
    term_lock: bool = True
    # Stuffing asks whether the group is still owned, and in the epoch in which it was given.
    group_fence: bool = True
    # ... and whoever gives the group away waits until the stuffing has come to its end.
    group_lock: bool = True
    # What has ended stays so.
    terminal_rule: bool = True
    # Who is to be failed for its silence is looked at again in the transaction that marks it.
    second_look: bool = True
    # Who cannot beat begins no request long before it may be failed.
    trust_window: bool = True
    # Whoever judges has beaten without a gap for as long as it concludes a silence from.
    steadiness: bool = True
    # Who is not first in line takes the office too, after a while.
    rank_wait: bool = True

    def without(self, name: str) -> "Rules":
        return dataclasses.replace(self, **{name: False})


NAMES = tuple(field.name for field in dataclasses.fields(Rules))
