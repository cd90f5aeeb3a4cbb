"""
Retry policies: after a failed attempt, they return the start of the next one, or the reason why there is none.

A policy is stored as JSON: `{"policy": "times", "times": 5, "seconds": 60}`. `read_policy` validates it. The module has
no clock: callers give the moment.
"""

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from nodes.errors import Invalid

DEFAULT_SECONDS: Final = 60.0
# Longest delay of a retry (seconds): exponential delays stop growing here.
LONGEST_DELAY: Final = 365 * 86_400.0
MOST_TIMES: Final = 10_000
# Largest depth of nested policies, and largest number of rows in a list of a policy.
_MOST_NESTED: Final = 5
_MOST_ROWS: Final = 100
# Number of workers that one task lost in a row, after which no policy retries it. The task probably kills its workers.
MOST_CRASHES: Final = 5
# Class of the failure of a task whose worker was lost.
WORKER_LOST: Final = "WorkerLost"


class Why(StrEnum):
    """The reason why a task is archived."""

    DONE = "done"
    TRIED_TOO_MANY_TIMES = "tried-too-many-times"
    NON_RETRIABLE_EXCEPTION = "non-retriable-exception"
    NOT_SCHEDULED_BY_RETRY_POLICY = "not-scheduled-by-retry-policy"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """
    A failed attempt.

    `classes` are the names of the exception's class and of its base classes, nearest first, each with and without its
    module. `attempts` counts this one. `crashes` counts the lost workers in a row, with this one.
    """

    classes: Sequence[str]
    attempts: int
    created_at: dt.datetime
    crashes: int = 0


@dataclass(frozen=True, slots=True)
class Retry:
    """Decision: the next attempt starts at this moment."""

    at: dt.datetime


@dataclass(frozen=True, slots=True)
class Archive:
    """Decision: no further attempt, for this reason."""

    why: Why


class Policy(Protocol):
    """A retry policy. Moments are the database's."""

    def decide(self, failure: Failure, *, now: dt.datetime) -> Retry | Archive:
        """Return the decision after a failed attempt: a retry, or the archive."""
        ...

    def is_last(self, *, attempts: int, created_at: dt.datetime, now: dt.datetime) -> bool:
        """True if no attempt follows the present one even if it fails. `attempts` counts the present one, too."""
        ...


@dataclass(frozen=True, slots=True)
class Never:
    """No retry."""

    def decide(self, _failure: Failure, *, now: dt.datetime) -> Retry | Archive:
        return Archive(Why.NOT_SCHEDULED_BY_RETRY_POLICY)

    def is_last(self, *, attempts: int, created_at: dt.datetime, now: dt.datetime) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Times:
    """At most `times` retries, each `seconds` after a failure."""

    times: int
    seconds: float = DEFAULT_SECONDS

    def decide(self, failure: Failure, *, now: dt.datetime) -> Retry | Archive:
        if failure.attempts > self.times:
            return Archive(Why.TRIED_TOO_MANY_TIMES)
        return Retry(now + dt.timedelta(seconds=self.seconds))

    def is_last(self, *, attempts: int, created_at: dt.datetime, now: dt.datetime) -> bool:
        return attempts > self.times


@dataclass(frozen=True, slots=True)
class Exponential:
    """At most `times` retries. The first comes `seconds` after the failure, and each delay doubles the one before."""

    times: int
    seconds: float = DEFAULT_SECONDS

    @classmethod
    def for_interval(cls, interval: float, seconds: float = DEFAULT_SECONDS) -> "Exponential":
        """Return the policy whose last delay is about `interval` seconds."""
        return cls(times=max(0, round(math.log2(interval / seconds))), seconds=seconds)

    def decide(self, failure: Failure, *, now: dt.datetime) -> Retry | Archive:
        if failure.attempts > self.times:
            return Archive(Why.TRIED_TOO_MANY_TIMES)
        delay = min(LONGEST_DELAY, math.ldexp(self.seconds, min(failure.attempts - 1, 64)))
        return Retry(now + dt.timedelta(seconds=delay))

    def is_last(self, *, attempts: int, created_at: dt.datetime, now: dt.datetime) -> bool:
        return attempts > self.times


@dataclass(frozen=True, slots=True)
class Forever:
    """A retry `seconds` after each failure, without end."""

    seconds: float = DEFAULT_SECONDS

    def decide(self, _failure: Failure, *, now: dt.datetime) -> Retry | Archive:
        return Retry(now + dt.timedelta(seconds=self.seconds))

    def is_last(self, *, attempts: int, created_at: dt.datetime, now: dt.datetime) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a time table: up to the age `within` of the task (seconds), a retry follows after `every` seconds."""

    within: float
    every: float


DEFAULT_ROWS: Final = (Row(300, 60), Row(3_600, 300), Row(86_400, 3_600))


@dataclass(frozen=True, slots=True)
class TimeTable:
    """Retries at intervals that depend on the age of the task. The first row whose `within` is above the age applies."""

    rows: tuple[Row, ...] = DEFAULT_ROWS

    def decide(self, failure: Failure, *, now: dt.datetime) -> Retry | Archive:
        age = (now - failure.created_at).total_seconds()
        row = next((row for row in self.rows if age < row.within), None)
        if row is None:
            return Archive(Why.NOT_SCHEDULED_BY_RETRY_POLICY)
        return Retry(now + dt.timedelta(seconds=row.every))

    def is_last(self, *, attempts: int, created_at: dt.datetime, now: dt.datetime) -> bool:
        return (now - created_at).total_seconds() >= self.rows[-1].within

    def retries(self) -> int:
        """Return the approximate number of retries of a task whose attempts all fail immediately."""
        begins = (0.0, *(row.within for row in self.rows))
        return sum(int((row.within - begin) // row.every) for row, begin in zip(self.rows, begins, strict=False))


@dataclass(frozen=True, slots=True)
class Rule:
    """A part of `ByException`: failures of these classes follow this policy."""

    exceptions: frozenset[str]
    policy: Policy


@dataclass(frozen=True, slots=True)
class ByException:
    """The policy of the first rule that names a class of the exception. Without such a rule there is no retry."""

    rules: tuple[Rule, ...]

    def decide(self, failure: Failure, *, now: dt.datetime) -> Retry | Archive:
        for rule in self.rules:
            if not rule.exceptions.isdisjoint(failure.classes):
                return rule.policy.decide(failure, now=now)
        return Archive(Why.NON_RETRIABLE_EXCEPTION)

    def is_last(self, *, attempts: int, created_at: dt.datetime, now: dt.datetime) -> bool:
        return all(rule.policy.is_last(attempts=attempts, created_at=created_at, now=now) for rule in self.rules)


@dataclass(frozen=True, slots=True)
class Filtered:
    """The inner policy, for these exceptions only."""

    exceptions: frozenset[str]
    policy: Policy

    def decide(self, failure: Failure, *, now: dt.datetime) -> Retry | Archive:
        if self.exceptions.isdisjoint(failure.classes):
            return Archive(Why.NON_RETRIABLE_EXCEPTION)
        return self.policy.decide(failure, now=now)

    def is_last(self, *, attempts: int, created_at: dt.datetime, now: dt.datetime) -> bool:
        return self.policy.is_last(attempts=attempts, created_at=created_at, now=now)


def decide(policy: Policy, failure: Failure, *, now: dt.datetime) -> Retry | Archive:
    """Return the consequence of a failure. A task that lost several workers in a row is not retried by any policy."""
    if failure.crashes >= MOST_CRASHES:
        return Archive(Why.TRIED_TOO_MANY_TIMES)
    return policy.decide(failure, now=now)


def names_of(raised: type[BaseException]) -> list[str]:
    """Return the names of an exception's class and of its base classes, with and without their modules."""
    classes = [base for base in raised.__mro__ if base is not object]
    names = [name for base in classes for name in (base.__name__, f"{base.__module__}.{base.__qualname__}")]
    return list(dict.fromkeys(names))


# --- Reading -----------------------------------------------------------------------------------------


def read_policy(stored: object) -> Policy:
    """
    Return the policy of its JSON form.

    Raises:
        Invalid: a part is unknown, missing or invalid. `problems` names it.
    """
    return _read(stored, path="", depth=0)


def _read(stored: object, *, path: str, depth: int) -> Policy:
    if depth > _MOST_NESTED:
        raise Invalid({path: [f"Nest at most {_MOST_NESTED} policies."]})
    if not isinstance(stored, Mapping):
        raise Invalid({path: ['A policy is an object, such as {"policy": "times", "times": 5, "seconds": 60}.']})
    name = stored.get("policy")
    if not isinstance(name, str) or name not in _READERS:
        raise Invalid({_below(path, "policy"): [f"Unknown policy; known policies: {', '.join(_READERS)}."]})
    known, reader = _READERS[name]
    for part in stored:
        if part != "policy" and part not in known:
            allowed = f"known parts of {name}: {', '.join(known)}" if known else f"{name} has no parts"
            raise Invalid({_below(path, str(part)): [f"Unknown part; {allowed}."]})
    return reader(stored, path, depth)


def _read_times(stored: Mapping[str, Any], path: str, _depth: int) -> Policy:
    return Times(times=_times(stored, path), seconds=_seconds(stored, path))


def _read_exponential(stored: Mapping[str, Any], path: str, _depth: int) -> Policy:
    seconds = _seconds(stored, path, least=0.001)
    if "interval" not in stored:
        return Exponential(times=_times(stored, path), seconds=seconds)
    if "times" in stored:
        raise Invalid({_below(path, "interval"): ["Write either times or interval."]})
    interval = _number(stored["interval"], _below(path, "interval"), least=seconds, most=LONGEST_DELAY)
    return Exponential.for_interval(interval, seconds)


def _read_forever(stored: Mapping[str, Any], path: str, _depth: int) -> Policy:
    return Forever(seconds=_seconds(stored, path, least=1))


def _read_time_table(stored: Mapping[str, Any], path: str, _depth: int) -> Policy:
    if "rows" not in stored:
        return TimeTable()
    place = _below(path, "rows")
    rows: list[Row] = []
    for number, part in enumerate(_list(stored["rows"], place)):
        here = f"{place}.{number}"
        if not isinstance(part, Mapping) or set(part) != {"within", "every"}:
            raise Invalid({here: ['A row is an object like {"within": 300, "every": 60}, in seconds.']})
        within = _number(part["within"], _below(here, "within"), least=1, most=LONGEST_DELAY)
        every = _number(part["every"], _below(here, "every"), least=1, most=LONGEST_DELAY)
        if every > within:
            raise Invalid({_below(here, "every"): [f"This must be at most within, {within:g} s."]})
        if rows and within <= rows[-1].within:
            raise Invalid(
                {_below(here, "within"): [f"This must be more than in the row before, {rows[-1].within:g} s."]}
            )
        rows.append(Row(within, every))
    return TimeTable(tuple(rows))


def _read_by_exception(stored: Mapping[str, Any], path: str, depth: int) -> Policy:
    place = _below(path, "rules")
    rules = []
    for number, part in enumerate(_list(stored.get("rules"), place)):
        here = f"{place}.{number}"
        if not isinstance(part, Mapping) or set(part) != {"exceptions", "then"}:
            raise Invalid({here: ['A rule is an object like {"exceptions": ["OSError"], "then": {"policy": ...}}.']})
        inner = _read(part["then"], path=_below(here, "then"), depth=depth + 1)
        rules.append(Rule(_exceptions(part, here), inner))
    return ByException(tuple(rules))


def _read_filtered(stored: Mapping[str, Any], path: str, depth: int) -> Policy:
    return Filtered(
        exceptions=_exceptions({"exceptions": ["Exception"], **stored}, path),
        policy=_read(stored.get("then"), path=_below(path, "then"), depth=depth + 1),
    )


_READERS: Final[Mapping[str, tuple[Sequence[str], Callable[[Mapping[str, Any], str, int], Policy]]]] = {
    "never": ((), lambda _stored, _path, _depth: Never()),
    "times": (("times", "seconds"), _read_times),
    "exponential": (("times", "interval", "seconds"), _read_exponential),
    "forever": (("seconds",), _read_forever),
    "time_table": (("rows",), _read_time_table),
    "by_exception": (("rules",), _read_by_exception),
    "filtered": (("exceptions", "then"), _read_filtered),
}


def _times(stored: Mapping[str, Any], path: str) -> int:
    value = stored.get("times")
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST_TIMES:
        raise Invalid({_below(path, "times"): [f"This must be a whole number from 0 to {MOST_TIMES}."]})
    return value


def _seconds(stored: Mapping[str, Any], path: str, *, least: float = 0) -> float:
    return _number(stored.get("seconds", DEFAULT_SECONDS), _below(path, "seconds"), least=least, most=LONGEST_DELAY)


def _number(value: object, path: str, *, least: float, most: float) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise Invalid({path: [f"This must be a number of seconds from {least:g} to {most:.0f}."]})
    return float(value)


def _exceptions(stored: Mapping[str, Any], path: str) -> frozenset[str]:
    place = _below(path, "exceptions")
    names = _list(stored["exceptions"], place)
    if not all(isinstance(name, str) and name for name in names):
        raise Invalid({place: ["Each name must be a text, such as OSError or package.module.NotThere."]})
    return frozenset(names)


def _list(value: object, path: str) -> list[Any]:
    if not isinstance(value, list) or not 1 <= len(value) <= _MOST_ROWS:
        raise Invalid({path: [f"This must be a list with 1 to {_MOST_ROWS} entries."]})
    return value


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
