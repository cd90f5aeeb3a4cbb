"""
Allowed documents: a stage that refuses documents by type, length, address, date or text.

    the type is not among the types, or is excluded    EXCLUDED_TYPE
    the body is shorter or longer than allowed         EXCLUDED_LENGTH
    the address matches no include or an exclude       EXCLUDED_URL
    the document is older or newer than allowed        EXCLUDED_DATE
    the title or the text matches a pattern            EXCLUDED_TEXT

A document without a date passes the limits of dates. The length is that of the body in bytes, or of the text if the
source keeps no body.
"""

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from jobs.connectors.repository.web.scope import BadPattern, Pattern, compile_pattern
from jobs.connectors.schema import Field, FieldKind, Schema
from jobs.connectors.transformation.base import Candidate, Item, Refused, TransformationKind

# Version of the code of this stage. It is part of the description, and grows when results change.
_RULES: Final = 1
_MOST_BYTES: Final = 10**12
_WORD: Final = r"[A-Za-z0-9!#$&^_.+-]+"
_TYPE: Final = re.compile(rf"{_WORD}/(?:{_WORD}|\*)")
# Names of metadata with the date of a document, for a source that gives no date. The first one with a valid date
# counts.
_DATES: Final = ("modified", "published", "last_modified")
# Longest matched text in a reason (characters).
_LONGEST_SHOWN: Final = 80

_SETTINGS: Final = Schema(
    (
        Field(
            name="content_types",
            kind=FieldKind.LINES,
            label=_("Allowed types"),
            help=_("Such as text/html or application/*, one per line. If empty, all types pass."),
        ),
        Field(name="exclude_types", kind=FieldKind.LINES, label=_("Excluded types"), help=_("One per line.")),
        Field(name="min_bytes", kind=FieldKind.WHOLE, label=_("Minimum length (bytes)"), least=0, most=_MOST_BYTES),
        Field(name="max_bytes", kind=FieldKind.WHOLE, label=_("Maximum length (bytes)"), least=0, most=_MOST_BYTES),
        Field(
            name="include",
            kind=FieldKind.LINES,
            label=_("Included addresses"),
            help=_("RE2 expressions, one per line. If empty, all addresses pass."),
        ),
        Field(
            name="exclude",
            kind=FieldKind.LINES,
            label=_("Excluded addresses"),
            help=_("RE2 expressions, one per line."),
        ),
        Field(
            name="earliest",
            kind=FieldKind.TEXT,
            label=_("Earliest date"),
            help=_("Such as 2026-01-31. If empty, no limit applies. Documents without a date pass."),
        ),
        Field(
            name="latest",
            kind=FieldKind.TEXT,
            label=_("Latest date"),
            help=_("Such as 2026-12-31. If empty, no limit applies."),
        ),
        Field(
            name="exclude_text",
            kind=FieldKind.LINES,
            label=_("Excluded texts"),
            help=_("RE2 expressions for the title or the text, one per line."),
        ),
    )
)


class AllowedDocuments:
    """A stage that refuses documents, with its rules."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.description = f"allowed {_RULES} {json.dumps(values, sort_keys=True)}"
        self._types = [name.lower() for name in values.get("content_types", ())]
        self._excluded_types = {name.lower() for name in values.get("exclude_types", ())}
        self._least: int = values.get("min_bytes") or 0
        self._most: int | None = values.get("max_bytes")
        self._include = _compiled(values.get("include", ()))
        self._exclude = _compiled(values.get("exclude", ()))
        self._exclude_text = _compiled(values.get("exclude_text", ()))
        self._earliest = _read_date(values.get("earliest", ""))
        latest = _read_date(values.get("latest", ""))
        # A date without a time includes the whole day.
        is_day = latest is not None and len(values["latest"].strip()) == len("2026-01-31")
        self._before = latest + dt.timedelta(days=1) if latest is not None and is_day else latest

    def reads(self, candidate: Candidate) -> bool:
        return False

    def why_not(self, candidate: Candidate) -> Refused | None:
        if (found := self._why_not_type(candidate.content_type)) is not None:
            return found
        if self._include and not any(pattern.search(candidate.url) for _, pattern in self._include):
            return Refused("EXCLUDED_URL", "The address matches none of the included addresses.")
        for text, pattern in self._exclude:
            if pattern.search(candidate.url):
                return Refused("EXCLUDED_URL", f"The address matches {_shown(text)}.")
        if candidate.length is not None and self._most is not None and candidate.length > self._most:
            return _too_long(candidate.length, self._most)
        return None

    def transform(self, item: Item) -> Sequence[Item] | Refused:
        length = len(item.text.encode(errors="replace")) if item.body is None else len(item.body)
        found = self.why_not(Candidate(item.url, item.content_type, length))
        if found is not None:
            return found
        if length < self._least:
            return Refused("EXCLUDED_LENGTH", f"The document has {length} bytes, and the minimum is {self._least}.")
        if self._earliest is not None or self._before is not None:
            date = _date_of(item)
            if date is not None and self._earliest is not None and date < self._earliest:
                return Refused("EXCLUDED_DATE", f"The document is of {date.isoformat()}, before the earliest date.")
            if date is not None and self._before is not None and date >= self._before:
                return Refused("EXCLUDED_DATE", f"The document is of {date.isoformat()}, after the latest date.")
        for text, pattern in self._exclude_text:
            if pattern.search(item.title) or pattern.search(item.text):
                return Refused("EXCLUDED_TEXT", f"The title or the text matches {_shown(text)}.")
        return (item,)

    def _why_not_type(self, content_type: str) -> Refused | None:
        names = (content_type, f"{content_type.partition('/')[0]}/*")
        if (self._types and not any(name in self._types for name in names)) or any(
            name in self._excluded_types for name in names
        ):
            return Refused("EXCLUDED_TYPE", f"The type is {content_type or 'unknown'}.")
        return None


def _too_long(length: int, most: int) -> Refused:
    return Refused("EXCLUDED_LENGTH", f"The document has {length} bytes, and the maximum is {most}.")


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…")


def _compiled(patterns: Iterable[str]) -> list[tuple[str, Pattern]]:
    return [(pattern, compile_pattern(pattern)) for pattern in patterns]


def _read_date(text: str) -> dt.datetime | None:
    """
    Return the moment of an ISO 8601 text, in UTC unless it has a zone; None for "".

    Raises:
        ValueError: the text is not a date.
    """
    if not text.strip():
        return None
    moment = dt.datetime.fromisoformat(text.strip())
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


def _date_of(item: Item) -> dt.datetime | None:
    if item.originated_at is not None:
        return item.originated_at
    for name in _DATES:
        for value in item.metadata.get(name, ()):
            try:
                return _read_date(value)
            except ValueError:
                continue
    return None


def _judge(values: Mapping[str, Any]) -> Mapping[str, list[str]]:
    problems: dict[str, list[str]] = {}
    for name in ("content_types", "exclude_types"):
        bad = [text for text in values.get(name, ()) if not _TYPE.fullmatch(text)]
        problems[name] = [f"{text!r} is not a content type. Write text/html or text/*." for text in bad]
    for name in ("include", "exclude", "exclude_text"):
        problems[name] = list(_problems_of_patterns(values.get(name, ())))
    for name in ("earliest", "latest"):
        try:
            _read_date(values.get(name, ""))
        except ValueError:
            problems[name] = ["Write a date such as 2026-01-31, or 2026-01-31T12:00:00Z."]
    least, most = values.get("min_bytes"), values.get("max_bytes")
    if least is not None and most is not None and least > most:
        problems["max_bytes"] = ["The maximum is less than the minimum."]
    return problems


def _problems_of_patterns(patterns: Iterable[str]) -> Iterable[str]:
    for pattern in patterns:
        try:
            compile_pattern(pattern)
        except BadPattern as error:
            yield f"{error}."


ALLOWED: Final = TransformationKind(
    name="allowed",
    label=_("Allowed documents"),
    help=_("Refuses documents by type, length, address, date or text."),
    settings=_SETTINGS,
    open=AllowedDocuments,
    judge=_judge,
)
