"""How a manager of distributed jobs works, as far as anybody should tune it. It may be replaced while the manager works."""

import datetime as dt
from dataclasses import dataclass, fields
from typing import Final

_NOTHING: Final = dt.timedelta()
_MAY_BE_NOTHING: Final = frozenset({"keep_failed_pool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """
    `stop_within` is how long runs are waited for that should stop, when the manager closes or their items go elsewhere.

    `lease` is for how long an item is locked, and so how long a node that is cut off may go on with a run; by default as
    long as the node's timeout, and never longer. `keep_failed_pool` is how long the last good pool of a job counts where
    asking for it fails; nothing: it is empty at once. `clean_every` is how often the main forgets the pools of jobs that no
    member can do. `try_again` is how soon a run is tried again that found an item in another's hands, and `start_within` how
    long the store is waited for at the start.
    """

    stop_within: dt.timedelta = dt.timedelta(minutes=15)
    lease: dt.timedelta | None = None
    keep_failed_pool: dt.timedelta = _NOTHING
    clean_every: dt.timedelta = dt.timedelta(hours=3)
    try_again: dt.timedelta = dt.timedelta(seconds=1)
    start_within: dt.timedelta = dt.timedelta(seconds=30)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None:
                continue
            if value < _NOTHING or (value == _NOTHING and field.name not in _MAY_BE_NOTHING):
                raise ValueError(f"{field.name} of {value.total_seconds():g} s cannot be: it must be more than 0")

    def lease_for(self, timeout: dt.timedelta) -> dt.timedelta:
        """
        The lease of a node that is taken for gone after this timeout.

        Raises:
            ValueError: it would outlive the node.
        """
        lease = timeout if self.lease is None else self.lease
        if lease > timeout:
            raise ValueError(
                f"the lease of {lease.total_seconds():g} s is longer than {timeout.total_seconds():g} s, after which a silent "
                f"node is taken for gone: others would wait for items that nobody does"
            )
        return lease
