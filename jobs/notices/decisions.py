"""
Decides which conditions and events become messages. The functions are pure, and take the present moment as an argument.
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

# Time for which a condition must be missing before it counts as ended. So a condition that comes and goes makes one
# message.
_ENDS_AFTER: Final = dt.timedelta(minutes=1)

Key = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """A condition that holds now, or an event. `event` names an event of a journal; '' means a condition."""

    topic: str
    key: str
    subject: str
    sentence: str
    link: str
    since: dt.datetime | None
    event: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCondition:
    """A condition that a rule has found and that has not ended. `last_message_at` is the time of its last message."""

    id: int
    topic: str
    key: str
    last_message_at: dt.datetime | None
    missing_since: dt.datetime | None


@dataclass(slots=True)
class Changes:
    """
    The changes for one rule: conditions that are new, need a reminder, have ended, are missing, or are present again.

    `unmuted` are open conditions without a message, because the rule was muted when they began.
    """

    new: list[Occurrence] = field(default_factory=list)
    unmuted: list[tuple[int, Occurrence]] = field(default_factory=list)
    reminders: list[tuple[int, Occurrence]] = field(default_factory=list)
    events: list[Occurrence] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    present: list[int] = field(default_factory=list)


def compare(
    seen: Sequence[Occurrence],
    known: Iterable[OpenCondition],
    *,
    full: frozenset[str],
    remind_after: dt.timedelta | None,
    now: dt.datetime,
) -> Changes:
    """
    Return the changes of a rule since its last check.

    A topic in `full` has more lines than its list shows, so a condition that is missing in the list may still hold.
    """
    changes = Changes()
    open_: Mapping[Key, OpenCondition] = {(one.topic, one.key): one for one in known}
    standing: dict[Key, Occurrence] = {}
    for one in seen:
        if not one.event:
            standing.setdefault((one.topic, one.key), one)
    changes.events = [one for one in seen if one.event and (one.topic, one.key) not in {*standing, *open_}]
    for key, one in standing.items():
        found = open_.get(key)
        if found is None:
            changes.new.append(one)
            continue
        if found.missing_since is not None:
            changes.present.append(found.id)
        if found.last_message_at is None:
            changes.unmuted.append((found.id, one))
        elif remind_after is not None and now - found.last_message_at >= remind_after:
            changes.reminders.append((found.id, one))
    for key, missed in open_.items():
        if key in standing or missed.topic in full:
            continue
        if missed.missing_since is None:
            changes.missing.append(missed.id)
        elif now - missed.missing_since >= _ENDS_AFTER:
            changes.ended.append(missed.id)
    return changes


def messages_left(sent: Sequence[dt.datetime], *, most_an_hour: int, now: dt.datetime) -> int:
    """Return the number of messages that a channel may get now. `sent` are the times of its earlier messages."""
    return max(0, most_an_hour - sum(now - at < dt.timedelta(hours=1) for at in sent))
