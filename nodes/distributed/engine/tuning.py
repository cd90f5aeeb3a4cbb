"""The tunable durations of a manager of distributed jobs. They may be replaced while the manager works."""

import datetime as dt
from dataclasses import dataclass, fields
from typing import Final

_NOTHING: Final = dt.timedelta()
_MAY_BE_NOTHING: Final = frozenset({"keep_failed_pool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """
    The durations of a manager.

    - `stop_within`: longest wait for runs that should stop, when the manager closes or their items move.
    - `lease`: duration of an item lock, and so the longest time that a node without connection continues a run. The
      default is the node's timeout, which is also its maximum.
    - `keep_failed_pool`: time for which the last good pool of a job stays in use after a failed read; zero: the pool is
    empty immediately.
    - `clean_every`: interval at which the main node removes the pools of jobs that no member can execute.
    - `try_again`: delay before the next attempt of a run whose item another node has locked.
    - `start_within`: longest wait for the store at the start.
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
                raise ValueError(f"{field.name} of {value.total_seconds():g} s is invalid: it must be more than 0")

    def lease_for(self, timeout: dt.timedelta) -> dt.timedelta:
        """
        Return the lease for a node that is considered lost after this timeout.

        Raises:
            ValueError: the lease is longer than the timeout.
        """
        lease = timeout if self.lease is None else self.lease
        if lease > timeout:
            raise ValueError(
                f"the lease is {lease.total_seconds():g} s: it must not be longer than the timeout of nodes, "
                f"{timeout.total_seconds():g} s. Otherwise, items of a failed node would wait for the end of its locks"
            )
        return lease
