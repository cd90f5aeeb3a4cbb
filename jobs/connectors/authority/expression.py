"""
The mapper that changes the name of a user by a regular expression and a replacement.

RE2 matches in linear time, so no pattern and no name can block the process.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import re2
from django.utils.translation import gettext_lazy as _

from jobs.connectors.authority.kind import Limits, MapperKind
from jobs.connectors.schema import Field, FieldKind, Schema

_MOST_CHARACTERS: Final = 1_000
# A part of a replacement: $(1), or $(1l) in lower case, or $(1u) in upper case.
_PART: Final = re.compile(r"\$\(([0-9]{1,2})([lu]?)\)")

SCHEMA: Final = Schema(
    (
        Field(
            name="pattern",
            kind=FieldKind.TEXT,
            label=_("Pattern"),
            help=_("Regular expression (RE2) for the whole name of a user, such as (.+)@example\\.org."),
            is_required=True,
        ),
        Field(
            name="replacement",
            kind=FieldKind.TEXT,
            label=_("Replacement"),
            help=_(
                "Text with $(1) for the first group, $(1l) for it in lower case, $(1u) in upper case, $(0) for all."
            ),
            is_required=True,
        ),
    )
)


class ExpressionMapper:
    """A compiled pattern with its replacement."""

    def __init__(self, pattern: str, replacement: str) -> None:
        options = re2.Options()
        # Otherwise RE2 prints to standard error.
        options.log_errors = False
        self._pattern, self._replacement = re2.compile(pattern, options), replacement

    @property
    def groups(self) -> int:
        """Return the number of groups of the pattern."""
        return int(self._pattern.groups)

    async def map(self, user: str) -> str | None:
        found = self._pattern.fullmatch(user)
        if found is None:
            return None
        return _PART.sub(lambda part: _written(found.group(int(part[1])) or "", part[2]), self._replacement)

    async def check(self) -> None:
        return

    async def close(self) -> None:
        return


def _judge(values: Mapping[str, Any]) -> Mapping[str, list[str]]:
    for name in ("pattern", "replacement"):
        if not 1 <= len(values[name]) <= _MOST_CHARACTERS:
            return {name: [f"Write 1 to {_MOST_CHARACTERS} characters."]}
    try:
        compiled = ExpressionMapper(values["pattern"], "")
    except (re2.error, UnicodeEncodeError) as error:
        said = error.args[0] if isinstance(error, re2.error) else "not valid Unicode"
        said = said.decode(errors="replace") if isinstance(said, bytes) else said
        return {"pattern": [f"This pattern is invalid: {said}."]}
    most = compiled.groups
    used = [int(part[1]) for part in _PART.finditer(values["replacement"])]
    if any(number > most for number in used):
        return {"replacement": [f"The pattern has {most} groups, and the replacement uses group {max(used)}."]}
    return {}


def _written(text: str, case: str) -> str:
    match case:
        case "l":
            return text.lower()
        case "u":
            return text.upper()
        case _:
            return text


def _open(values: Mapping[str, Any], _limits: Limits) -> ExpressionMapper:
    return ExpressionMapper(values["pattern"], values["replacement"])


MAPPER: Final = MapperKind(name="regex", label=_("Regular expression"), configuration=SCHEMA, open=_open, judge=_judge)
