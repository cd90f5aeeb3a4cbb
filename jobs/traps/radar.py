"""
The radar: counts of each group of addresses of a host, and the groups that look like traps.

A group is judged after a certain number of fetches (its budget). It is a suspect if its last fetches have less new
content than chance explains, and a larger number of fetches has little new content, too. An address is avoidable if one
of its groups is a suspect, unless its own template proved to have new content.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from jobs.traps.novelty import Lines
from jobs.traps.templates import Group, Grouped

# Share of new content below which a group is a suspect.
LEAST_NEW: Final = 0.25
# Number of standard deviations between a measured share and the bound that is compared with LEAST_NEW. About one good
# group in a thousand is beyond the bound by chance.
_DEVIATIONS: Final = 3.0
# Number of fetches after which a group is judged, by the same number of its last fetches.
BUDGET: Final = 50
_WINDOW: Final = (1 << BUDGET) - 1
# Number of last fetches whose share of new content must be low, too: a good group may have some poor pages in a row.
_LONG: Final = 4 * BUDGET
_LONG_WINDOW: Final = (1 << _LONG) - 1
# Number of fetches after which a template can prove good, and share of new content that proves it.
_PROVEN_AFTER: Final = 10
_PROVEN_SHARE: Final = 0.5
# Largest numbers of groups of a host, and of hosts, that are counted at the same time.
_GROUPS: Final = 1_000
_HOSTS: Final = 64
# Largest number of proven templates of the host in the list of a suspect.
_PROVEN: Final = 50
# Largest number of addresses that a suspect keeps as examples.
SAMPLES: Final = 5


def most_new(new: int, fetched: int) -> float:
    """Return the upper bound of the share of new content in a group, from its fetches (Wilson)."""
    share, square = new / fetched, _DEVIATIONS**2
    spread = _DEVIATIONS * math.sqrt(share * (1 - share) / fetched + square / (4 * fetched**2))
    return (share + square / (2 * fetched) + spread) / (1 + square / fetched)


# Largest number of fetches with new content, among the last `BUDGET` fetches, with which a group is a suspect.
_MOST_NEW: Final = max(new for new in range(BUDGET) if most_new(new, BUDGET) < LEAST_NEW)


@dataclass(slots=True)
class GroupCount:
    """
    The fetches of a group, their bytes, and the fetches with new content.

    `samples` are its last addresses without new content, and `new_samples` those with new content.
    """

    group: Group
    # True for the template of addresses, False for a wider group.
    is_exact: bool = False
    fetched: int = 0
    new: int = 0
    bytes: int = 0
    is_suspect: bool = False
    samples: list[str] = field(default_factory=list)
    new_samples: list[str] = field(default_factory=list)
    # The last fetches, a bit each: 1 for new content.
    _last: int = 0
    _taken: tuple[int, int, int] = (0, 0, 0)

    def add(self, url: str, *, is_new: bool, read: int) -> None:
        """Count a fetch."""
        self.fetched += 1
        self.new += is_new
        self.bytes += read
        self._last = (self._last << 1 | is_new) & _LONG_WINDOW
        if is_new:
            self.new_samples = [*self.new_samples[1 - SAMPLES :], url]
        else:
            self.samples = [*self.samples[1 - SAMPLES :], url]

    def take_counts(self) -> tuple[int, int, int]:
        """
        Return the number of fetches, the number of fetches with new content, and the bytes, all since the last call.
        """
        counts = self.fetched, self.new, self.bytes
        taken = counts[0] - self._taken[0], counts[1] - self._taken[1], counts[2] - self._taken[2]
        self._taken = counts
        return taken

    @property
    def is_proven(self) -> bool:
        """True if the last fetches of the group show that it is good."""
        counted = min(self.fetched, BUDGET)
        return counted >= _PROVEN_AFTER and self._new_of(_WINDOW) >= _PROVEN_SHARE * counted

    def judge(self) -> None:
        """Judge the group by its last fetches if it has used its budget."""
        if self.fetched >= BUDGET and self._new_of(_WINDOW) <= _MOST_NEW:
            # A wide group has many parts. A part with little new content is a group of its own, and must not make the
            # wide group a suspect.
            new = self.new if self.group.is_wide else self._new_of(_LONG_WINDOW)
            fetched = self.fetched if self.group.is_wide else min(self.fetched, _LONG)
            self.is_suspect = new <= LEAST_NEW * fetched

    def _new_of(self, window: int) -> int:
        return (self._last & window).bit_count()


class HostRadar:
    """The groups of one host in one run."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._counts: dict[str, GroupCount] = {}

    def suspect_of(self, address: Grouped) -> GroupCount | None:
        """
        Return the suspect to which an address belongs; None if there is no suspect, or the template of the address is
        proven good.
        """
        own = self._counts.get(address.groups[0].template)
        if own is not None and own.is_proven and not own.is_suspect:
            return None
        for group in address.groups:
            count = self._counts.get(group.template)
            if count is not None and count.is_suspect:
                return count
        return None

    def add(self, url: str, address: Grouped, text: str, *, read: int) -> GroupCount | None:
        """
        Count a fetch; return the suspect to which it belongs. The suspect may have become one by this fetch.

        An avoidable fetch counts only for its suspect, so that other groups do not become suspects because of it.
        """
        is_new = self._lines.is_new(address, text)
        if (known := self.suspect_of(address)) is not None:
            known.add(url, is_new=is_new, read=read)
            return known
        found = None
        for group in address.groups:
            count = self._counts.get(group.template)
            if count is None:
                if len(self._counts) >= _GROUPS:
                    self._forget_rare()
                is_exact = group is address.groups[0]
                count = self._counts[group.template] = GroupCount(group, is_exact)
            count.add(url, is_new=is_new, read=read)
            if found is None:
                count.judge()
                found = count if count.is_suspect else None
        return found

    def proven(self) -> list[str]:
        """Return the templates that proved to have new content, those with the most fetches first."""
        good = [count for count in self._counts.values() if count.is_exact and count.is_proven and not count.is_suspect]
        good.sort(key=lambda count: -count.fetched)
        return [count.group.template for count in good[:_PROVEN]]

    def _forget_rare(self) -> None:
        """Forget the half of the groups that have the fewest fetches. Suspects stay."""
        kept = sorted(self._counts.items(), key=lambda one: (one[1].is_suspect, one[1].fetched))[_GROUPS // 2 :]
        self._counts = dict(kept)


class Radar:
    """The hosts that a worker watches, by job, run and name. The host that was not read for longest is forgotten."""

    def __init__(self) -> None:
        self._hosts: OrderedDict[tuple[int, int, str], HostRadar] = OrderedDict()

    def host(self, job: int, run: int, name: str) -> HostRadar:
        """Return the radar of a host in a run."""
        key = job, run, name
        found = self._hosts.get(key)
        if found is None:
            found = self._hosts[key] = HostRadar()
            if len(self._hosts) > _HOSTS:
                self._hosts.popitem(last=False)
        else:
            self._hosts.move_to_end(key)
        return found
