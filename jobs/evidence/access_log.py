"""Lines of access logs in the Common and the Combined Log Format, as Apache, nginx and most others write them."""

import datetime as dt
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

_QUOTED: Final = r'"((?:[^"\\]|\\.)*)"'
_LINE: Final = re.compile(rf"\S+ \S+ .*?\[([^\]]{{1,40}})\] {_QUOTED} (\d{{3}}) (?:\d+|-)(?: {_QUOTED} {_QUOTED})?")
_NAMES: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS: Final = {name: number for number, name in enumerate(_NAMES, 1)}
_MOMENT: Final = re.compile(r"(\d\d)/(\w{3})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-])(\d\d)(\d\d)")


class Line(NamedTuple):
    """A request in the log: its second (since 1970), and the status of its answer."""

    second: int
    status: int


class BadLog(Exception):
    """A line is not in a known format."""


def read_log(lines: Iterable[str], *, agents: Collection[str], name: str = "the log") -> Iterator[Line]:
    """
    Yield the requests of these user agents. The Common Log Format has no user agents, so all its requests count.

    Raises:
        BadLog: a line has another format.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        found = _LINE.match(line)
        second = _second(found.group(1)) if found else None
        if found is None or second is None:
            raise BadLog(f"Line {number} of {name} is not in the Common or Combined Log Format.")
        given = found.group(5)
        if given is None or given in agents:
            yield Line(second, int(found.group(3)))


def _second(text: str) -> int | None:
    found = _MOMENT.fullmatch(text)
    if found is None or found.group(2) not in _MONTHS:
        return None
    day, month, year, hour, minute, second, sign, hours, minutes = found.groups()
    offset = dt.timedelta(hours=int(hours), minutes=int(minutes)) * (-1 if sign == "-" else 1)
    try:
        at = dt.datetime(
            int(year), _MONTHS[month], int(day), int(hour), int(minute), min(int(second), 59), tzinfo=dt.UTC
        )
    except ValueError:
        return None
    return int((at - offset).timestamp())
