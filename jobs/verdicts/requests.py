"""The latest requests to a host, or of a job, and whether they fail."""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from jobs.verdicts.results import is_failure

# Least number of requests from which a share of failures is computed.
_FEWEST: Final = 3
# A host or job fails if at least this share of its latest requests failed.
FAILING_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Requests:
    """
    Requests that ended. `codes` counts the failed requests by result code.

    `seconds` is the average time of an answer, None if nothing was measured. `failing_since` is the start of the
    earliest failed request.
    """

    ended: int = 0
    failed: int = 0
    codes: Mapping[str, int] | None = None
    seconds: float | None = None
    failing_since: dt.datetime | None = None

    @property
    def share(self) -> float:
        """Return the part of the requests that failed."""
        return self.failed / self.ended if self.ended else 0.0

    @property
    def can_be_judged(self) -> bool:
        return self.ended >= _FEWEST

    @property
    def is_failing(self) -> bool:
        return self.can_be_judged and self.share >= FAILING_SHARE

    @property
    def code(self) -> str:
        """Return the most frequent code of a failure; '' without a failure."""
        return max(sorted(self.codes), key=self.codes.__getitem__) if self.codes else ""


@dataclass(frozen=True, slots=True)
class Counted:
    """Requests with one result code: their number, the seconds that they took, and the start of the first one."""

    code: str
    amount: int
    seconds: float
    first_at: dt.datetime


def add_up(counted: Iterable[Counted]) -> Requests:
    """Return the sum of requests of several result codes."""
    known = [one for one in counted if one.amount]
    failed = [one for one in known if is_failure(one.code)]
    ended = sum(one.amount for one in known)
    codes: dict[str, int] = {}
    for one in failed:
        codes[one.code] = codes.get(one.code, 0) + one.amount
    return Requests(
        ended=ended,
        failed=sum(one.amount for one in failed),
        codes=codes,
        seconds=sum(one.seconds for one in known) / ended if ended else None,
        failing_since=min((one.first_at for one in failed), default=None),
    )
