"""
The minutes for which the record is complete.

A minute is complete if each worker that ran in it has reported it. A killed worker has not reported its last minutes. A
worker that ran before the record was switched on has not reported its first minutes. Such minutes are a gap. Each gap
is a block of a separate chain, so the record itself shows where it may lack requests.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from jobs.evidence.minutes import MINUTE, Facts, moment_text

# The chain of gaps has no host.
OF_GAPS: Final = ""
# Reasons of gaps.
BEGINS: Final = "The record begins here."
WAS_OFF: Final = "The record was off."
DID_NOT_RECORD: Final = "A worker did not report its requests."
RESTORED: Final = "The database was restored."
SET_BACK: Final = "The clock of the database was set back, so these minutes were recorded twice."
ENDED: Final = "A worker ended without its last report."
# Time for which rows of ended workers certainly exist (seconds). If `advance` was not called for longer, the record
# gets a gap, because workers may be unknown.
_WORKERS_ARE_KNOWN_FOR: Final = 12 * 3600


@dataclass(frozen=True, slots=True)
class Recorder:
    """
    One worker, with its begin and its end, and its record from `since` until `complete_until` (seconds since 1970).

    `ended` is None while it runs. `since` is None if it has not reported yet. A worker that `reported_all` has ended
    after its last report. `why` is the reason of the gap before its first report.
    """

    started: float
    ended: float | None = None
    since: float | None = None
    complete_until: float = 0.0
    reported_all: bool = False
    why: str = DID_NOT_RECORD


@dataclass(frozen=True, slots=True)
class Gap:
    """Minutes in which requests may be missing from the record, and the reason."""

    begin: int
    until: int
    why: str

    def content(self) -> Facts:
        """Return the content of the gap's block."""
        return {"host": OF_GAPS, "from": moment_text(self.begin), "until": moment_text(self.until), "why": self.why}


def repeated(complete_until: int, *, now: float, latest: int, named: Gap | None) -> Gap | None:
    """
    Return the gap for minutes that occur again because the clock was set back; None if the clock was not set back.

    After such a jump, the record is complete until a moment in the future. `latest` is the last closed minute, and
    `named` is the newest gap of the record: it prevents a second gap for the same jump until the clock reaches this
    moment again.
    """
    if complete_until <= now + MINUTE:
        return None
    is_named = named is not None and named.why == SET_BACK and named.until >= complete_until and named.begin <= latest
    return None if is_named else Gap(latest, complete_until, SET_BACK)


def advance(complete_until: int | None, *, latest: int, workers: Sequence[Recorder]) -> tuple[int | None, list[Gap]]:
    """
    Return the moment until which the record is complete now (at most `latest`; None before the record begins), and the
    gaps before this moment.

    `complete_until` is the result of the last call. `workers` has all workers that have run since then.
    """
    running = [worker for worker in workers if worker.ended is None]
    # A running worker has not reported its last minute yet, so it is unknown whether that minute is complete.
    reported = (worker.started if worker.since is None else worker.complete_until for worker in running)
    until = min([latest, *map(_floor, reported)])
    if complete_until is None:
        since = [worker.since for worker in running if worker.since is not None]
        begin = max(latest - _WORKERS_ARE_KNOWN_FOR, max(map(_ceil, since), default=latest))
        if len(since) < len(running) or begin > until:
            return None, []
        return begin, [Gap(0, begin, BEGINS)]
    if until <= complete_until:
        return complete_until, []
    gaps: list[Gap] = []
    if complete_until < latest - _WORKERS_ARE_KNOWN_FOR:
        gaps.append(Gap(complete_until, until, WAS_OFF))
    else:
        for missing_from, end, why in sorted(_missing(workers)):
            first = max(_floor(missing_from), complete_until, gaps[-1].until if gaps else 0)
            last = min(_ceil(min(end, until)), until)
            if first < last:
                gaps.append(Gap(first, last, why))
    return until, gaps


def _missing(workers: Iterable[Recorder]) -> Iterable[tuple[float, float, str]]:
    for worker in workers:
        end = math.inf if worker.ended is None else worker.ended
        if worker.since is None:
            yield worker.started, end, worker.why
            continue
        if worker.since > worker.started:
            yield worker.started, worker.since, worker.why
        if worker.ended is not None and not worker.reported_all:
            yield worker.complete_until, end, ENDED


def _floor(moment: float) -> int:
    return math.floor(moment / MINUTE) * MINUTE


def _ceil(moment: float) -> int:
    return math.ceil(moment / MINUTE) * MINUTE
