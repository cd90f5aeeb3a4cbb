"""
The freshness goals of a job: which share of the documents whose addresses match a pattern must be fresh within a time.

The first goal that matches a document applies to it. In a form, each goal is a line: `95 % of /news/ within 15 min`.
"""

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from jobs.connectors.repository.web.scope import BadPattern, Pattern, compile_pattern
from jobs.freshness.pricing import GoalTerms
from jobs.lifecycle.schedule_text import parse_span, span_in_words

MOST_GOALS: Final = 20
# Bounds of the time within which documents must be fresh (seconds).
SHORTEST: Final = 1.0
LONGEST: Final = 3650 * 86_400.0
_FIELDS: Final = frozenset({"pattern", "percent", "within"})
_LINE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%\s+of\s+(\S.*?)\s+within\s+([0-9].*)")

Problems = dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Goals:
    """The goals of a job. `version` differs between different lists of goals."""

    patterns: Sequence[Pattern]
    terms: Sequence[GoalTerms]
    version: str

    def number_of(self, identifier: str) -> int | None:
        """Return the number of the first goal whose pattern matches a document; None if no pattern does."""
        return next((number for number, pattern in enumerate(self.patterns) if pattern.search(identifier)), None)


def read_goals(stored: Sequence[Mapping[str, Any]]) -> Goals | None:
    """
    Return stored goals; None if there are none.

    Raises:
        ValueError: a stored goal is no longer valid.
    """
    if not stored:
        return None
    return Goals(
        [compile_pattern(goal["pattern"]) for goal in stored],
        [GoalTerms(goal["percent"] / 100, float(goal["within"])) for goal in stored],
        blake2b(repr([sorted(goal.items()) for goal in stored]).encode(), digest_size=8).hexdigest(),
    )


def check_goals(given: object) -> Problems:
    """Return the problems of given goals by their place: `""` for the whole list, `0.pattern` for a field of a goal."""
    if not isinstance(given, list):
        return {"": ["Write a list of goals, each with a pattern, a percentage and a time."]}
    if len(given) > MOST_GOALS:
        return {"": [f"A job has at most {MOST_GOALS} freshness goals. Join some patterns."]}
    problems: Problems = {}
    for place, goal in enumerate(given):
        problems |= {f"{place}{name and '.'}{name}": said for name, said in _check_goal(goal).items()}
    return problems


def as_stored(given: object) -> Any:  # noqa: ANN401 (what is no list of goals stays as it is)
    """Return given goals with all numbers in one numeric type, so that equal goals are equal values."""
    if not isinstance(given, list) or check_goals(given):
        return given
    return [
        {"pattern": goal["pattern"], "percent": float(goal["percent"]), "within": float(goal["within"])}
        for goal in given
    ]


def _check_goal(goal: object) -> Problems:
    if not isinstance(goal, Mapping):
        return {"": ["Write an object with pattern, percent and within."]}
    problems: Problems = {
        str(name): ["Unknown. A goal has pattern, percent and within."] for name in goal.keys() - _FIELDS
    }
    pattern = goal.get("pattern")
    if not isinstance(pattern, str) or not pattern:
        problems["pattern"] = ["Write a pattern, such as /news/, or . for all documents."]
    else:
        try:
            compile_pattern(pattern)
        except BadPattern as error:
            problems["pattern"] = [f"{error}."]
    percent, within = goal.get("percent"), goal.get("within")
    if not _is_between(percent, 0, 100) or percent == 0:
        problems["percent"] = ["Write a number greater than 0 and at most 100."]
    if not _is_between(within, SHORTEST, LONGEST):
        problems["within"] = ["Write a number of seconds, from 1 second to 10 years."]
    return problems


def _is_between(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


def goal_in_words(goal: Mapping[str, Any]) -> str:
    """Return a goal as its line in a form."""
    return f"{goal['percent']:g} % of {goal['pattern']} within {span_in_words(dt.timedelta(seconds=goal['within']))}"


def goals_in_words(goals: Iterable[Mapping[str, Any]]) -> str:
    """Return the text of these goals."""
    return "\n".join(map(goal_in_words, goals))


def parse_goals(text: str) -> list[dict[str, Any]]:
    """
    Return the goals of a text.

    Raises:
        ValueError: a line is not a goal, or a goal is invalid. The message is a sentence.
    """
    goals: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise ValueError(f"Line {number} is invalid. Write a goal such as “95 % of /news/ within 15 min”.")
        percent, pattern, within = found.groups()
        try:
            goals.append({"pattern": pattern, "percent": float(percent), "within": parse_span(within).total_seconds()})
        except ValueError as error:
            raise ValueError(f"Line {number}: {error}") from None
    for field, said in check_goals(goals).items():
        place = field.partition(".")[0]
        raise ValueError(f"Goal {int(place) + 1}: {said[0]}" if place else said[0])
    return goals
