"""The requests that a disturbed crawl of partitions may repeat: arithmetic on the site's log."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from crawlctl.demo.log import LoggedRequest

# Seconds before a kill in which fetched pages may not be stored yet, and for which turns are open afterwards.
_IN_FLIGHT: Final = 60.0
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Disturbance:
    """
    A kill, an absence or a restore of a partition, by the monotonic clock (seconds).

    It began `at` and ended `until`. A restored database knows nothing since the beginning of its backup, which is `since`.
    """

    kind: str
    partition: str
    at: float
    until: float
    since: float | None = None

    def may_repeat(self, before: float, again: float) -> bool:
        """True if a request of its partition at `before` may be repeated at `again`."""
        earliest = self.at if self.since is None else self.since
        return earliest - _IN_FLIGHT <= before <= self.until + _IN_FLIGHT and again >= self.at


def unexplained_repeats(
    requests: Iterable[LoggedRequest], disturbances: Sequence[Disturbance], partition_of: Callable[[str], str]
) -> list[str]:
    """
    Return the addresses that were requested again although nothing had happened to their partition.

    A server error is repeated in any case. Each disturbance repeats an address once at most.
    """
    seen = defaultdict(list)
    for request in requests:
        if request.path != "/robots.txt":
            seen[request.url].append(request)
    found = []
    for url, of_url in seen.items():
        left = [one for one in disturbances if one.partition == partition_of(of_url[0].host)]
        for before, again in pairwise(of_url):
            if before.status >= 500:
                continue
            why = next((one for one in left if one.may_repeat(before.time / _SECOND, again.time / _SECOND)), None)
            if why is None:
                found.append(url)
            else:
                left.remove(why)
    return found
