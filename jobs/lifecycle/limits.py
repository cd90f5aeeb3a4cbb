"""
The limits of a throttle policy or of a rule, by the names of their columns.

Tables, checks, forms, the API, and the queries that read policies take the names, types and maxima from here.
"""

from dataclasses import dataclass, fields
from typing import Final, TypedDict

MOST_REQUESTS: Final = 1_000
LONGEST_GAP: Final = 86_400.0
MOST_STARTS: Final = 1_000_000
MOST_TOTAL_REQUESTS: Final = 1_000_000
MOST_BYTES: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitColumns:
    """
    Limits for each host, then for all hosts together. None means no limit in a policy, and the limit of the policy in a
    rule.
    """

    open_requests: int | None = None
    min_gap: float | None = None
    starts: int | None = None
    period: str = ""
    bytes_per_second: int | None = None
    total_open_requests: int | None = None
    total_starts: int | None = None
    total_period: str = ""
    total_bytes_per_second: int | None = None


class LimitFacts(TypedDict, total=False):
    """The columns of `LimitColumns` as arguments for a policy. A policy always has values for the first two."""

    open_requests: int
    min_gap: float
    starts: int | None
    period: str
    bytes_per_second: int | None
    total_open_requests: int | None
    total_starts: int | None
    total_period: str
    total_bytes_per_second: int | None


LIMITS: Final = tuple(column.name for column in fields(LimitColumns))
TOTALS: Final = tuple(name for name in LIMITS if name.startswith("total_"))
OF_EACH_HOST: Final = tuple(name for name in LIMITS if name not in TOTALS)

# The noun and the maximum of each limit that is a whole number. The minimum is 1.
COUNTS: Final = {
    "open_requests": ("open requests", MOST_REQUESTS),
    "starts": ("starts", MOST_STARTS),
    "bytes_per_second": ("bytes a second", MOST_BYTES),
    "total_open_requests": ("open requests", MOST_TOTAL_REQUESTS),
    "total_starts": ("starts", MOST_STARTS),
    "total_bytes_per_second": ("bytes a second", MOST_BYTES),
}
