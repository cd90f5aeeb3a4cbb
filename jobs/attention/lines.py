"""The type of lines of the attention list."""

import datetime as dt
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.translation import ngettext

from nodes.web import formats

# Largest number of lines of one source. If there are more, a last line has the number of the lines that are left out.
SHOWN: Final = 10
# Largest number of lines that one source reads.
FOUND: Final = 100


class Severity(enum.StrEnum):
    """Urgency of a line, the most urgent first."""

    # Level of a line about something that does not work.
    CRITICAL = "critical"
    # Level of a line about something that works less well than it should, or that a person stopped.
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class AttentionLine:
    """
    One problem that needs attention.

    `kind` is a fixed word for programs, `subject` names the object, and `sentence` reports the event and the next step.
    `since` is None if it is not known. `link` is the path of the page about the object, without a host. `key` is unique
    among the lines of one kind in one `partition`. `partition` is "" for this partition.
    """

    kind: str
    key: str
    subject: str
    sentence: str
    since: dt.datetime | None
    link: str
    severity: Severity = Severity.CRITICAL
    partition: str = ""


def with_rest(lines: Sequence[AttentionLine], *, subject: str, link: str) -> list[AttentionLine]:
    """
    Return the first lines of a kind, and one last line with the number of further lines. `subject` and `link` are for
    the last line.
    """
    hidden = len(lines) - SHOWN
    if hidden <= 0:
        return list(lines)
    sentence = ngettext("At least %(n)s more is not shown.", "At least %(n)s more are not shown.", hidden)
    first = lines[0]
    rest = AttentionLine(
        kind=first.kind,
        key="more",
        subject=subject,
        sentence=sentence % {"n": formats.number(hidden)},
        since=None,
        link=link,
        severity=first.severity,
    )
    return [*lines[:SHOWN], rest]
