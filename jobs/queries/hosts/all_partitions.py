"""Lists of the hosts of all partitions."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jobs.partitions.last_answers import HeldAnswers
from jobs.partitions.merged import Merged, Placed, Silent, merge_lines, read_everywhere
from jobs.queries.hosts.lines import HostStatus, read_host_statuses
from jobs.queries.hosts.selection import A_PAGE, HostFilter, find_busiest, find_hosts
from nodes.database.clock import read_clock


@dataclass(frozen=True, slots=True)
class HostKey:
    """
    The last host on a page. The next page continues after it. `partition` is the other partition that has the host, ""
    for this one.
    """

    id: int
    name: str = ""
    partition: str = ""


@dataclass(frozen=True, slots=True)
class HostsEverywhere:
    """One page of the hosts of all partitions that have answered."""

    lines: Sequence[Placed[HostStatus]]
    next_key: HostKey | None = None
    silent: Sequence[Silent] = ()


@dataclass(frozen=True, slots=True)
class _Part:
    lines: Sequence[HostStatus]
    has_more: bool


def list_busiest_everywhere(*, now: dt.datetime) -> HostsEverywhere:
    """
    Return the busiest hosts of all partitions, with the most open requests first. Each partition's hosts keep their
    order.
    """
    return _busiest(read_everywhere(lambda: _read_busiest(now), lambda _name: _read_busiest(read_clock())))


def list_busiest_for_open_page(*, now: dt.datetime) -> HostsEverywhere:
    """Return the busiest hosts of all partitions. Figures of other partitions may be some seconds old."""
    cached = _cached.answers()
    own = _read_busiest(now)
    return HostsEverywhere([Placed(line) for line in own]) if cached is None else _busiest(cached.with_own(own))


def _busiest(found: Merged[Sequence[HostStatus]]) -> HostsEverywhere:
    parts = {"": found.own, **dict(sorted(found.others.items()))}
    ranked = [(rank, Placed(line, name)) for name, part in parts.items() for rank, line in enumerate(part)]
    # Hosts without open requests are taken from one partition after the other, one each, in the order of each
    # partition.
    ranked.sort(key=lambda one: (-one[1].line.lent, -one[1].line.in_progress, one[0]))
    return HostsEverywhere([placed for _rank, placed in ranked[:A_PAGE]], None, found.silent)


def _read_busiest(now: dt.datetime) -> Sequence[HostStatus]:
    return read_host_statuses(find_busiest(), now=now)


def list_hosts_everywhere(
    wanted: HostFilter, *, after: HostKey | None = None, now: dt.datetime, most: int = A_PAGE
) -> HostsEverywhere:
    """
    Return a page of the hosts of all partitions, sorted by name. Among equal names, the host of this partition is the
    first.

    With a state, the page has the hosts of one partition after the other. Within a partition, they are sorted by id,
    the oldest first.
    """

    def part(name: str, now: dt.datetime) -> _Part:
        narrowed = _behind(wanted, after, name)
        if narrowed is None:
            return _Part((), has_more=False)
        found = find_hosts(narrowed, limit=most)
        return _Part(read_host_statuses(found.ids, now=now), has_more=found.next_key is not None)

    found = read_everywhere(lambda: part("", now), lambda name: part(name, read_clock()))
    lines = merge_lines(found, lambda part: part.lines, key=lambda line: "" if wanted.state else _name_of(line))
    shown = lines[:most]
    has_more = len(lines) > most or any(part.has_more for part in (found.own, *found.others.values()))
    last = shown[-1] if has_more and shown else None
    return HostsEverywhere(shown, HostKey(last.line.id, last.line.name, last.partition) if last else None, found.silent)


def _name_of(line: HostStatus) -> Any:
    # Bytes sort as PostgreSQL sorts names in the collation "C".
    return line.name.encode()


def _behind(wanted: HostFilter, after: HostKey | None, partition: str) -> HostFilter | None:
    """Return the filter for the hosts of a partition behind the last host of a page; None if no host follows."""
    if after is None:
        return wanted
    if partition == after.partition:
        return HostFilter(name=wanted.name, state=wanted.state, after=after.id)
    if wanted.state:
        return wanted if partition > after.partition else None
    return HostFilter(name=wanted.name, behind=after.name, or_equal=partition > after.partition)


_cached = HeldAnswers(lambda _name: _read_busiest(read_clock()))
