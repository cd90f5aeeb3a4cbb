"""A line of the attention list."""

import datetime as dt
import enum
from dataclasses import dataclass
from typing import Final

# Lines that one source shows. A last line counts the others.
SHOWN: Final = 10


class Severity(enum.StrEnum):
    """Urgency of a line, the most urgent first."""

    # A function does not work.
    CRITICAL = "critical"
    # A function works less well than it should, or was held back by a person.
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class AttentionLine:
    """
    One problem that needs attention.

    `kind` is a fixed word for programs, `subject` names the object, and `sentence` reports the event and the next step.
    `since` is None if it is not known. `link` is the path of the page about it, without a host. `key` is unique among
    the lines of one kind in one `partition`: another one, or "" for this one.
    """

    kind: str
    key: str
    subject: str
    sentence: str
    since: dt.datetime | None
    link: str
    severity: Severity = Severity.CRITICAL
    partition: str = ""
