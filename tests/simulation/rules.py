"""The rules that keep the cluster consistent. Each has a name, so that a mutant can leave it out."""

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules. All are on, unless one is switched off to see whether the checker notices."""

    # Marking a node as failed waits for its open writes, or ends them.
    node_lock: bool = True
    # A write of the main manager checks that its term is still the last one.
    term_check: bool = True
    # An election waits for the end of a write of the main manager.
    term_lock: bool = True
    # Stuffing checks that its manager still owns the group, in the epoch in which it got the group.
    group_fence: bool = True
    # A group gets another owner only after the end of its stuffing.
    group_lock: bool = True
    # An ended node remains ended.
    terminal_rule: bool = True
    # The transaction that marks a silent node as failed checks its silence again.
    second_check: bool = True
    # A node without heartbeats begins no request, long before it may be failed.
    trust_window: bool = True
    # A node judges the silence of another node only after it has itself sent heartbeats for that long without a gap.
    steadiness: bool = True
    # After a while, a candidate that is not the first in line also takes leadership.
    rank_wait: bool = True

    def without(self, name: str) -> "Rules":
        return dataclasses.replace(self, **{name: False})


NAMES = tuple(field.name for field in dataclasses.fields(Rules))
