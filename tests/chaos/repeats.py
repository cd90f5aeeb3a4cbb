"""The requests that a disturbed crawl of partitions may repeat, computed from the site's log."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from crawlctl.demo.log import LoggedRequest

# Longest time (seconds) between the fetch of a page and its storage, and longest time for which turns stay open.
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

    @property
    def earliest(self) -> float:
        """Return the moment since which its partition may have lost requests."""
        return (self.at if self.since is None else self.since) - _IN_FLIGHT

    def may_repeat(self, before: float, again: float) -> bool:
        """True if a request of its partition at `before` may be repeated at `again`."""
        return self.earliest <= before <= self.until + _IN_FLIGHT and again >= self.at


# Predicate: True if this partition had this host at some time between two moments (monotonic seconds).
HadHost = Callable[[str, str, float, float], bool]


def unexplained_repeats(
    requests: Iterable[LoggedRequest], disturbances: Sequence[Disturbance], had: HadHost
) -> list[str]:
    """
    Return the addresses that were requested again although nothing had happened to a partition that `had` their host.

    A server error is repeated in any case. Each disturbance repeats an address once at most.
    """
    seen = defaultdict(list)
    for request in requests:
        if request.path != "/robots.txt":
            seen[request.url].append(request)
    found = []
    for url, of_url in seen.items():
        host, left = of_url[0].host, list(disturbances)
        for first, second in pairwise(of_url):
            if first.status >= 500:
                continue
            before, again = first.time / _SECOND, second.time / _SECOND
            why = next(
                (
                    one
                    for one in left
                    if one.may_repeat(before, again) and had(one.partition, host, one.earliest, again)
                ),
                None,
            )
            if why is None:
                found.append(url)
            else:
                left.remove(why)
    return found
