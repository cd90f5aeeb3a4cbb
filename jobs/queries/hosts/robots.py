"""robots.txt of a web host as it was last read, and the earlier answers that are kept."""

import datetime as dt
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from django.db.models.fields.json import KT
from django.db.models.functions import Left

from jobs.connectors.repository.web.robots import RobotsKind
from jobs.models import PastRobots, Robots

# Largest numbers of lines and of characters of a text that a page shows. A file may have half a megabyte, in one line.
_LINES: Final = 300
_CHARACTERS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Text:
    """The first lines of an answer. `is_cut` is true if there are more. An answer without rules has no lines."""

    has_rules: bool
    lines: Sequence[str]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A replaced answer, and the lines that its successor removed (-) and added (+)."""

    last_read_at: dt.datetime
    replaced_at: dt.datetime
    difference: Sequence[str]


@dataclass(frozen=True, slots=True)
class RobotsOfOrigin:
    """robots.txt of one origin as it was last read. `changes` has the newest first."""

    origin: str
    text: Text
    read_at: dt.datetime
    changes: Sequence[Change]


@dataclass(frozen=True, slots=True)
class _Past:
    text: Text
    last_read_at: dt.datetime
    replaced_at: dt.datetime


def read_robots_of_host(name: str) -> list[RobotsOfOrigin]:
    """Return each robots.txt of a web host that was read: by http, by https, or both."""
    origins = [f"{scheme}://{name}" for scheme in ("http", "https")]
    answer = (KT("answer__kind"), Left(KT("answer__text"), _CHARACTERS + 1))
    past: dict[str, list[_Past]] = {}
    rows = PastRobots.objects.filter(origin__in=origins).order_by("-last_read_at")
    for origin, last_read_at, replaced_at, kind, text in rows.values_list(
        "origin", "last_read_at", "replaced_at", *answer
    ):
        past.setdefault(origin, []).append(_Past(_text_of(kind, text), last_read_at, replaced_at))
    found = []
    latest = Robots.objects.filter(origin__in=origins).order_by("origin")
    for origin, read_at, kind, text in latest.values_list("origin", "fetched_at", *answer):
        shown = _text_of(kind, text)
        found.append(RobotsOfOrigin(origin, shown, read_at, list(_changes(shown, past.get(origin, [])))))
    return found


def _text_of(kind: str, text: str) -> Text:
    if kind != RobotsKind.RULES:
        return Text(has_rules=False, lines=(), is_cut=False)
    lines = text[:_CHARACTERS].splitlines()
    is_cut = len(text) > _CHARACTERS or len(lines) > _LINES
    return Text(has_rules=True, lines=lines[:_LINES], is_cut=is_cut)


def _changes(latest: Text, past: Sequence[_Past]) -> Iterator[Change]:
    """Yield the changes between each answer and the one before it."""
    later = latest
    for one in past:
        difference = difflib.unified_diff(one.text.lines, later.lines, lineterm="", n=1)
        # The first two lines name files.
        yield Change(one.last_read_at, one.replaced_at, list(islice(difference, 2, None)))
        later = one.text
