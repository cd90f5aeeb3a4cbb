"""
The configuration fields of connectors: name, type and bounds.

One list of fields serves three purposes: it checks stored and sent values, it generates forms, and it labels a job's
values on pages. The connector itself checks the rest, such as the syntax of a pattern.
"""

import enum
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.utils.functional import Promise

from nodes.database.sealing import Unreadable, can_open, seal, unseal


class BadSpecification(ValueError):
    """A stored or given specification is invalid. `field` is the key with the error."""

    def __init__(self, field: str, reason: str) -> None:
        self.field, self.reason = field, reason
        super().__init__(f"{field}: {reason}")


class FieldKind(enum.Enum):
    """The kind of value of a field."""

    TEXT = enum.auto()
    # A list of texts.
    LINES = enum.auto()
    CHOICE = enum.auto()
    TRUTH = enum.auto()
    # A whole number, or null.
    WHOLE = enum.auto()
    NUMBER = enum.auto()
    # A text that is stored sealed.
    SECRET = enum.auto()
    # A list of records, each with the fields of another schema.
    RECORDS = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """
    One field. `label` and `help` are for people. `least` and `most` bound numbers.

    `choices` are the values of a CHOICE with their labels, the default first. `records` is the schema of RECORDS. A
    field that `is_required` has no default. A field that is a destination says where the secrets of the same object and
    of its records are sent, or how they are protected on the way. If the destination changes, stored secrets must be
    entered again.
    """

    name: str
    kind: FieldKind
    label: str | Promise
    help: str | Promise = ""
    choices: tuple[tuple[str, str | Promise], ...] = ()
    least: float | None = None
    most: float | None = None
    is_required: bool = False
    is_destination: bool = False
    records: "Schema | None" = None

    def read(self, value: object) -> Any:  # noqa: ANN401 (each kind has its type)
        """
        Return the value in the type that the connector expects.

        Raises:
            BadSpecification: another type, or out of bounds.
        """
        match self.kind:
            case FieldKind.TEXT:
                if not isinstance(value, str):
                    raise BadSpecification(self.name, "must be a text")
                return value
            case FieldKind.LINES:
                if not isinstance(value, list | tuple) or not all(isinstance(line, str) for line in value):
                    raise BadSpecification(self.name, "must be a list of texts")
                return tuple(value)
            case FieldKind.CHOICE:
                known = [name for name, _ in self.choices]
                if value not in known:
                    raise BadSpecification(self.name, f"must be one of {', '.join(known)}")
                return value
            case FieldKind.TRUTH:
                if not isinstance(value, bool):
                    raise BadSpecification(self.name, "must be true or false")
                return value
            case FieldKind.WHOLE:
                if value is None:
                    return None
                if not isinstance(value, int) or isinstance(value, bool):
                    raise BadSpecification(self.name, "must be a whole number, or null")
                self._check_bounds(value)
                return value
            case FieldKind.NUMBER:
                if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
                    raise BadSpecification(self.name, "must be a number")
                self._check_bounds(value)
                return float(value)
            case FieldKind.SECRET:
                if not isinstance(value, str):
                    raise BadSpecification(self.name, "must be a text")
                try:
                    return unseal(value)
                except Unreadable as error:
                    raise BadSpecification(self.name, str(error)) from None
            case FieldKind.RECORDS:
                if not isinstance(value, list | tuple) or not all(isinstance(record, Mapping) for record in value):
                    raise BadSpecification(self.name, "must be a list of objects")
                assert self.records is not None
                try:
                    return tuple(self.records.read(record) for record in value)
                except BadSpecification as error:
                    raise BadSpecification(self.name, str(error)) from None

    def parse(self, text: str) -> object:
        """Return the value of a text on the command line. `read` still has to check it."""
        match self.kind:
            case FieldKind.TEXT | FieldKind.CHOICE | FieldKind.SECRET:
                return text
            case FieldKind.LINES:
                return text.split("\n")
            case _:
                try:
                    return json.loads(text)
                except (ValueError, RecursionError):
                    return text

    def sealed(self, value: Any) -> Any:  # noqa: ANN401 (each kind has its type)
        """Return a valid value in its stored form, in which a secret is encrypted."""
        if self.kind is FieldKind.SECRET:
            return seal(value)
        if self.records is not None:
            return [self.records.sealed(record) for record in value]
        return value

    def _check_bounds(self, number: float) -> None:
        """Refuse a number that is out of bounds. NaN is always refused."""
        if (self.least is not None and not number >= self.least) or (self.most is not None and not number <= self.most):
            raise BadSpecification(self.name, f"must be {_range_in_words(self.least, self.most)}")


@dataclass(frozen=True, slots=True)
class Schema:
    """All fields of one object, in the order in which a form shows them."""

    fields: tuple[Field, ...]

    def read(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return the values, typed. Missing fields stay missing.

        Raises:
            BadSpecification: a key is unknown or missing, or a value is invalid.
        """
        for error in self._errors(stored):
            raise error
        known = self._by_name
        return {name: known[name].read(value) for name, value in stored.items()}

    def problems(self, stored: Mapping[str, Any]) -> dict[str, list[str]]:
        """Return all problems of stored or given values, by the name of the field."""
        return {error.field: [f"{error}."] for error in self._errors(stored)}

    def _errors(self, stored: Mapping[str, Any]) -> Iterator[BadSpecification]:
        known = self._by_name
        there_are = f"there are {', '.join(sorted(known))}" if known else "there are no fields"
        for name in stored:
            if name not in known:
                yield BadSpecification(str(name), f"unknown; {there_are}")
        for field in self.fields:
            if field.name not in stored:
                if field.is_required:
                    yield BadSpecification(field.name, "missing")
                continue
            try:
                field.read(stored[field.name])
            except BadSpecification as error:
                yield error

    def closed_secrets(self, stored: Mapping[str, Any]) -> list[str]:
        """Return the names of fields with an encrypted secret that this process cannot decrypt."""
        closed = []
        for field in self.fields:
            value = stored.get(field.name)
            if field.kind is FieldKind.SECRET and isinstance(value, str) and not can_open(value):
                closed.append(field.name)
            elif field.records is not None and isinstance(value, list | tuple):
                records = [record for record in value if isinstance(record, Mapping)]
                if any(field.records.closed_secrets(record) for record in records):
                    closed.append(field.name)
        return closed

    @property
    def _by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}

    def sealed(self, said: Mapping[str, Any]) -> dict[str, Any]:
        """Return valid values in their stored form, in which the secrets are encrypted."""
        known = self._by_name
        return {name: known[name].sealed(value) if name in known else value for name, value in said.items()}


# The schema of a connector that has nothing to configure.
NOTHING: Final = Schema(())


def _range_in_words(least: float | None, most: float | None) -> str:
    if least is None or most is None:
        return f"{most:.15g} at most" if least is None else f"{least:.15g} at least"
    return f"from {least:.15g} to {most:.15g}"
