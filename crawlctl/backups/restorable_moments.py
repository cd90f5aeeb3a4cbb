"""
The moments to which the backups of a store can be restored, computed from names, times and positions.

A backup and the segments of the log after it reach the end of the last segment without a gap. After a restore the
server continues on a new timeline, which begins inside of an older one. So a restore of a backup can follow several
ways, one along each timeline.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from crawlctl.backups.descriptions import Backup
from crawlctl.backups.errors import Unusable
from crawlctl.backups.wal import Log, Segment, name_of, position

_ALWAYS = dt.datetime.min.replace(tzinfo=dt.UTC)


@dataclass(frozen=True)
class Way:
    """
    A way from a backup along a timeline.

    `segments` follow the backup without a gap. `gap` names the missing segments before later ones, as a sentence, or is
    ''. `since` is the time at which a restore opened the timeline.
    """

    backup: Backup
    timeline: int
    segments: tuple[Segment, ...]
    gap: str
    since: dt.datetime

    @property
    def is_sealed(self) -> bool:
        """True if the copy and each segment are sealed. Without a seal, nothing proves the origin of a part."""
        return self.backup.has_sealed_data and all(segment.is_sealed for segment in self.segments)

    @property
    def until(self) -> dt.datetime:
        """The last moment that can be restored."""
        reached = (segment.reached for segment in self.segments if segment.reached)
        return max([self.backup.ended_at, *reached])

    def includes(self, moment: dt.datetime) -> bool:
        """True if a restore reaches exactly this moment."""
        return max(self.backup.ended_at, self.since) <= moment <= self.until


def ways_of(backup: Backup, log: Log) -> list[Way]:
    """Return the ways of a backup, with the newest timeline last."""
    if not backup.end_lsn:
        return [Way(backup, backup.timeline, (), "", _ALWAYS)]
    size, end = backup.segment_bytes, position(backup.end_lsn)
    ways = []
    for timeline in sorted({backup.timeline, *log.histories}):
        begins = _beginnings(log.histories.get(timeline, []), timeline)
        ended_at = dict(log.histories.get(timeline, []))
        if timeline != backup.timeline and (backup.timeline not in begins or ended_at[backup.timeline] < end):
            continue
        first = begins[timeline] // size
        if timeline != backup.timeline and (timeline, first) not in log.segments:
            # Nothing of this timeline is stored yet.
            continue
        found, gap = _without_gap(log, begins, timeline=timeline, first=end // size, size=size)
        if timeline != backup.timeline and not any(segment.timeline == timeline for segment in found):
            continue
        ways.append(Way(backup, timeline, found, gap, log.opened.get(timeline, _ALWAYS)))
    return ways


def _beginnings(history: list[tuple[int, int]], timeline: int) -> dict[int, int]:
    """Return the positions at which a timeline and its ancestors begin."""
    begins, at = {}, 0
    for ancestor, ended_at in history:
        begins[ancestor] = at
        at = ended_at
    begins[timeline] = at
    return begins


def _without_gap(
    log: Log, begins: Mapping[int, int], *, timeline: int, first: int, size: int
) -> tuple[tuple[Segment, ...], str]:
    last = max((number for of, number in log.segments if of == timeline), default=-1)
    found: list[Segment] = []
    number = first
    while number <= last:
        of = max((begun, each) for each, begun in begins.items() if begun // size <= number)[1]
        segment = log.segments.get((of, number))
        if segment is None:
            later = min(
                (each for each_of, each in log.segments if each_of == timeline and each > number), default=number + 1
            )
            names = [name_of(timeline, each, segment_bytes=size) for each in (number, later - 1)]
            return tuple(found), f"{later - number} segments are missing, from {names[0]} to {names[1]}"
        found.append(segment)
        number += 1
    return tuple(found), ""


def choose(backups: Iterable[tuple[Backup, Log]], *, until: dt.datetime | None, place: str) -> Way:
    """
    Return the way of the newest backup to a moment, or to the end of the log.

    Raises:
        Unusable: no backup reaches that moment. The message names the moments that can be reached.
    """
    ways = [way for backup, log in backups for way in ways_of(backup, log)]
    if not ways:
        raise Unusable(f"{place} has no backup. `crawlctl backup --to {place}` makes one")
    system = max(ways, key=lambda way: way.backup.name).backup.system
    if until is None:
        return max(ways, key=lambda way: (way.backup.system == system, way.timeline, way.until, way.backup.name))
    reaching = [way for way in ways if way.includes(until)]
    if not reaching:
        known = "; ".join(f"{way.backup.name}: {spoken(way)}" for way in ways)
        raise Unusable(f"no backup in {place} reaches {until.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC. {known}")
    return max(reaching, key=lambda way: (way.backup.system == system, way.timeline, way.backup.name))


def spoken(way: Way) -> str:
    """Return the moments that a way reaches, as words."""
    begin = max(way.backup.ended_at, way.since)
    if way.until == way.backup.ended_at:
        return f"only {way.until:%Y-%m-%d %H:%M:%S} UTC"
    return f"from {begin:%Y-%m-%d %H:%M:%S} to {way.until:%Y-%m-%d %H:%M:%S} UTC"
