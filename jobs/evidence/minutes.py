"""Reports of workers about one minute of a host, and the block that is made of them."""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

MINUTE: Final = 60

Facts = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """
    The requests of one worker to a host in one minute, which starts at `minute` (seconds since 1970, as all moments).

    `seconds` has the requests by second of the minute, and `unanswered` the requests without an answer. `limits` are
    (second of the minute, gap, bytes a second) for each change of the limits in force. `refusals` are answers 429 and
    503, and other answers that made the crawler wait, as in a block.
    """

    host: str
    minute: int
    seconds: Mapping[int, int] = field(default_factory=dict)
    unanswered: Mapping[int, int] = field(default_factory=dict)
    bytes_read: int = 0
    limits: Sequence[tuple[int, float, float | None]] = ()
    refusals: Sequence[Facts] = ()

    def facts(self) -> Facts:
        """Return the values of the report for JSON, without host and minute."""
        return {
            "sent": sorted(self.seconds.items()),
            "unanswered": sorted(self.unanswered.items()),
            "bytes": self.bytes_read,
            "limits": [list(limit) for limit in self.limits],
            "refusals": list(self.refusals),
        }


def report_of(host: str, minute: int, facts: Facts) -> Report:
    """Return the report from the facts that `Report.facts` returned."""
    return Report(
        host,
        minute,
        dict(facts["sent"]),
        dict(facts["unanswered"]),
        facts["bytes"],
        tuple((second, gap, rate) for second, gap, rate in facts["limits"]),
        facts["refusals"],
    )


def content_of(reports: Sequence[Report]) -> Facts:
    """Return the content of the block for these reports. All of them are about the same minute and host."""
    refusals = (refusal for report in reports for refusal in report.refusals)
    return {
        "host": reports[0].host,
        "minute": moment_text(reports[0].minute),
        "sent": _sums_by_second(report.seconds for report in reports),
        "unanswered": _sums_by_second(report.unanswered for report in reports),
        "bytes": sum(report.bytes_read for report in reports),
        "limits": _limits_of(reports),
        "refusals": sorted(refusals, key=lambda refusal: str(refusal["at"])),
    }


def count_of(pairs: Iterable[tuple[int, int]]) -> int:
    """Return the number of requests in all seconds. Each pair is a second and its number of requests."""
    return sum(count for _, count in pairs)


def _sums_by_second(all_seconds: Iterable[Mapping[int, int]]) -> list[list[int]]:
    added: Counter[int] = Counter()
    for seconds in all_seconds:
        added.update(seconds)
    return [[second, count] for second, count in sorted(added.items())]


def _limits_of(reports: Sequence[Report]) -> list[Facts]:
    """Return the changes of the limits, the earliest first, without repeated ones."""
    changes: list[Facts] = []
    for second, gap, rate in sorted(
        (limit for report in reports for limit in report.limits), key=lambda limit: (limit[0], -limit[1])
    ):
        if not changes or (changes[-1]["gap"], changes[-1]["bytes_per_second"]) != (gap, rate):
            changes.append({"second": second, "gap": gap, "bytes_per_second": rate})
    return changes


def moment_text(moment: float) -> str:
    """Return a moment as text; with milliseconds if it is not a whole second."""
    at = dt.datetime.fromtimestamp(moment, dt.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S") + (f".{at.microsecond // 1000:03}" if at.microsecond else "") + "Z"


def moment_of(text: str) -> float:
    """
    Return the moment of a text that `moment_text` wrote.

    Raises:
        ValueError: the text is not a moment.
    """
    at = dt.datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("The moment has no time zone.")
    return at.timestamp()
