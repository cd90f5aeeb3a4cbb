"""
The comparison of evidence with the access log of a site.

Each request in the log must be in the record, and each answered request of the record must be in the log, at most the
tolerance apart. The two directions are matched separately. If both succeed, one assignment of requests to log lines
satisfies both directions.

A request near an end of the period, or near a gap of the record, may belong to the other side. So such a request needs
no partner, but may be the partner of another request.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from jobs.evidence.access_log import Line
from jobs.evidence.files import Evidence
from jobs.evidence.minutes import MINUTE, Facts, moment_of, moment_text

# Statuses that ask the crawler to slow down.
_REFUSALS: Final = frozenset({429, 503})
# Tolerances (seconds): between the times of a request in the record and in the log, and between the delays of two
# requests.
TOLERANCE: Final = 2.0
JITTER: Final = 0.25
# Time after which no worker sends requests to a host that refused one of the workers (seconds).
_REACTION: Final = 5.0


class Difference(NamedTuple):
    """A difference at a moment (seconds since 1970), as a sentence."""

    at: float
    sentence: str


class _Change(NamedTuple):
    """A change of the limit at a moment: the gap between two requests (seconds), 0 for no limit."""

    at: int
    gap: float


class _Allowed:
    """The limits that were in force at each moment, according to the evidence."""

    def __init__(self, contents: Iterable[Facts]) -> None:
        self._changes = sorted(
            _Change(int(moment_of(content["minute"])) + change["second"], float(change["gap"]))
            for content in contents
            for change in content["limits"]
        )
        self._starts = [change.at for change in self._changes]

    def gap(self, begin: float, end: float) -> float:
        """Return the shortest gap that was in force at any time between these moments (seconds)."""
        first = max(0, bisect_left(self._starts, begin) - 1)
        return min((change.gap for change in self._changes[first : bisect_right(self._starts, end)]), default=0.0)

    def first_excess(self, seconds: Sequence[int], *, margin: float, jitter: float) -> tuple[int, int] | None:
        """
        Return two of these sorted seconds between which more requests left than the limits allow; None if there are
        none.

        All pairs of requests within a minute are compared: the sum of the gaps between them must fit into the time
        between them. `margin` is the longest difference between a moment of the log and the same moment in the record.
        """
        total = 0.0
        # For requests of the last minute: the sum of the gaps before the request minus its second, and the second. Only
        # requests with the lowest sums can be part of an excess, so others are dropped.
        earlier: deque[tuple[float, int]] = deque()
        for place, second in enumerate(seconds):
            if place:
                total += self.gap(seconds[place - 1] - margin, second + margin)
            ahead = total - second
            while len(earlier) > 1 and earlier[0][1] < second - MINUTE:
                earlier.popleft()
            # The log has whole seconds.
            if earlier and ahead - earlier[0][0] > 1 + jitter + 1e-6:
                return earlier[0][1], second
            while earlier and earlier[-1][0] >= ahead:
                earlier.pop()
            earlier.append((ahead, second))
        return None


def contradictions_in(evidence: Sequence[Evidence], *, jitter: float = JITTER) -> list[Difference]:
    """Return the first place where the evidence has more requests than its limits allow, as a list of at most one."""
    contents = _contents(evidence)
    found = _Allowed(contents).first_excess(_seconds_in(contents, "sent"), margin=0, jitter=jitter)
    return [] if found is None else [_excess(*found, "the evidence")]


def differences(
    evidence: Sequence[Evidence], log: Iterable[Line], *, tolerance: float = TOLERANCE, jitter: float = JITTER
) -> list[Difference]:
    """
    Return the first difference of each kind, sorted by time. The requests in files of several partitions are added up.
    """
    lines = sorted(log)
    contents = _contents(evidence)
    reach = math.ceil(tolerance)
    is_inside = _inside(evidence, reach)
    found = [
        _request_without_record(contents, [line.second for line in lines], is_inside=is_inside, reach=reach),
        _answer_without_log_line(contents, [line.second for line in lines], is_inside=is_inside, reach=reach),
        _excess_over_limits(
            contents, [line.second for line in lines if is_inside(line.second)], reach=reach, jitter=jitter
        ),
        _refusal_or_reaction_alone(contents, lines, is_inside=is_inside, reach=reach),
        _request_during_wait(contents, lines, is_inside=is_inside, reach=reach),
    ]
    return sorted(one for one in found if one is not None)


def _contents(evidence: Sequence[Evidence]) -> list[Facts]:
    return [content for one in evidence for content in one.contents]


def _seconds_in(contents: Iterable[Facts], key: str) -> list[int]:
    """Return the second of each request of the record."""
    return sorted(
        int(moment_of(content["minute"])) + second
        for content in contents
        for second, count in content[key]
        for _ in range(count)
    )


def _inside(evidence: Sequence[Evidence], reach: int) -> Callable[[float], bool]:
    """
    Return a function that is true for a moment if it is certainly in the period, and certainly not in a gap of the
    record.
    """
    begin = max(one.period.begin for one in evidence) + reach
    until = min(one.period.until for one in evidence) - reach
    gaps = [(gap.begin - reach, gap.until + reach) for one in evidence for gap in one.gaps]

    def is_inside(at: float) -> bool:
        return begin <= at < until and not any(first <= at < last for first, last in gaps)

    return is_inside


def _request_without_record(
    contents: Sequence[Facts], seconds: Sequence[int], *, is_inside: Callable[[float], bool], reach: int
) -> Difference | None:
    """Find requests of the log that the record lacks."""
    sent = _seconds_in(contents, "sent")
    more = list(_without_partner([second for second in seconds if is_inside(second)], sent, reach))
    if not more:
        return None
    return Difference(
        more[0], f"At {moment_text(more[0])}, the log has a request that the evidence lacks{_in_total(more)}."
    )


def _answer_without_log_line(
    contents: Sequence[Facts], seconds: Sequence[int], *, is_inside: Callable[[float], bool], reach: int
) -> Difference | None:
    """Find answered requests of the record that the log lacks."""
    unanswered = Counter(_seconds_in(contents, "unanswered"))
    answered = sorted((Counter(_seconds_in(contents, "sent")) - unanswered).elements())
    missing = list(_without_partner([second for second in answered if is_inside(second)], seconds, reach))
    if not missing:
        return None
    return Difference(
        missing[0],
        f"At {moment_text(missing[0])}, the evidence has a request that the log lacks{_in_total(missing)}.",
    )


def _in_total(found: Sequence[int]) -> str:
    return f" ({len(found)} in total)" if len(found) > 1 else ""


def _without_partner(ones: Sequence[int], others: Sequence[int], reach: int) -> Iterator[int]:
    """
    Yield the seconds without a partner, sorted. A partner is a second of the other side that is at most `reach` away,
    and that is the partner of no other second.

    The earliest possible partner is the best choice, because `reach` is the same for all seconds.
    """
    place = 0
    for second in ones:
        while place < len(others) and others[place] < second - reach:
            place += 1
        if place < len(others) and others[place] <= second + reach:
            place += 1
        else:
            yield second


def _excess_over_limits(
    contents: Sequence[Facts], seconds: Sequence[int], *, reach: int, jitter: float
) -> Difference | None:
    """Find requests of the log that are closer together than the limits in force allow."""
    found = _Allowed(contents).first_excess(seconds, margin=reach, jitter=jitter)
    return None if found is None else _excess(*found, "the log")


def _excess(first: int, last: int, name: str) -> Difference:
    return Difference(
        first,
        f"From {moment_text(first)} to {moment_text(last)}, {name} has more requests than the limits in force allow.",
    )


def _refusal_or_reaction_alone(
    contents: Sequence[Facts], lines: Sequence[Line], *, is_inside: Callable[[float], bool], reach: int
) -> Difference | None:
    """Find an answer 429 or 503 in the log without a reaction in the evidence, or a reaction without its answer."""
    noted: dict[int, list[int]] = {status: [] for status in _REFUSALS}
    for content in contents:
        for one in content["refusals"]:
            if str(one["code"]).isdecimal():
                noted.setdefault(int(one["code"]), []).append(int(moment_of(one["sent"])))
    found = []
    for status, moments in noted.items():
        moments.sort()
        seconds = [line.second for line in lines if line.status == status]
        # One second more, because the time of a reaction is taken before the connection is opened.
        without_line = _without_partner([at for at in moments if is_inside(at)], seconds, reach + 1)
        found += [
            Difference(at, f"At {moment_text(at)}, the evidence has an answer {status}, and the log has none.")
            for at in without_line
        ]
        if status in _REFUSALS:
            without_reaction = _without_partner([at for at in seconds if is_inside(at)], moments, reach + 1)
            found += [
                Difference(
                    at, f"At {moment_text(at)}, the log has an answer {status}, and the evidence has no reaction to it."
                )
                for at in without_reaction
            ]
    return min(found, default=None)


def _request_during_wait(
    contents: Sequence[Facts], lines: Sequence[Line], *, is_inside: Callable[[float], bool], reach: int
) -> Difference | None:
    """Find a request at a time when the crawler had to wait."""
    seconds = [line.second for line in lines if is_inside(line.second)]
    for content in contents:
        for refusal in content["refusals"]:
            if refusal["until"] is None:
                continue
            begins = moment_of(refusal["at"]) + reach + _REACTION
            place = bisect_left(seconds, begins)
            if place < len(seconds) and seconds[place] + 1 <= moment_of(refusal["until"]) - reach:
                return Difference(
                    seconds[place],
                    f"At {moment_text(seconds[place])}, the log has a request. After the answer {refusal['code']} at "
                    f"{refusal['at']}, the crawler was to wait until {refusal['until']}.",
                )
    return None
