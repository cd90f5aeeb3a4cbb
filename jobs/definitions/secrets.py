"""
Secrets in definitions: left out at an export, and taken from the stored object at an import.

A place is a path such as `configuration.logins.0.fields.1.secret`. Records of a list are found by their `name`, so a
secret stays with its record if others are added or moved.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobs.connectors.schema import NOTHING, FieldKind, Schema
from nodes.database.sealing import can_open, is_sealed, unseal

_NAME: Final = "name"
_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret of a value: its place, and the mapping that has it under `key`."""

    place: tuple[str | int, ...]
    holder: dict[str, Any]
    key: str

    @property
    def path(self) -> str:
        return ".".join(map(str, self.place))


def secrets_of(value: Any, schema: Schema, *, below: tuple[str | int, ...] = ()) -> Iterator[Secret]:  # noqa: ANN401 (JSON)
    """Yield the secrets of a stored or given value: sealed texts, and texts of fields for secrets."""
    fields = {field.name: field for field in schema.fields}
    for key, inner in value.items() if isinstance(value, dict) else ():
        field, place = fields.get(key), (*below, key)
        if isinstance(inner, str):
            if is_sealed(inner) or (field is not None and field.kind is FieldKind.SECRET):
                yield Secret(place, value, key)
            continue
        yield from secrets_of(inner, (field and field.records) or NOTHING, below=place)
    for index, inner in enumerate(value if isinstance(value, list) else ()):
        yield from secrets_of(inner, schema, below=(*below, index))


def counterpart(place: Sequence[str | int], *, given: Any, stored: Any) -> str | None:  # noqa: ANN401 (JSON)
    """Return the stored text at the place of a given value; None if there is none."""
    for step in place:
        if isinstance(step, int):
            if not isinstance(given, list) or not isinstance(stored, list) or not step < len(given):
                return None
            stored = _same_record(given, step, stored)
            given = given[step]
        else:
            if not isinstance(stored, Mapping) or not isinstance(given, Mapping):
                return None
            stored, given = stored.get(step, _ABSENT), given.get(step)
        if stored is _ABSENT:
            return None
    return stored if isinstance(stored, str) else None


def find_holder(value: Any, path: str) -> tuple[tuple[str | int, ...], dict[str, Any]] | None:  # noqa: ANN401 (JSON)
    """Return the place that a path means in a given value, and the mapping around it; None if it has none."""
    steps = path.split(".")
    place: list[str | int] = []
    for number, step in enumerate(steps, start=1):
        if isinstance(value, list) and step.isascii() and step.isdigit() and int(step) < len(value):
            place.append(int(step))
            value = value[int(step)]
        elif isinstance(value, dict) and number == len(steps):
            return (*place, step), value
        elif isinstance(value, dict) and step in value:
            place.append(step)
            value = value[step]
        else:
            return None
    return None


def keep_equal(value: Any, schema: Schema, *, stored: Any) -> None:  # noqa: ANN401 (JSON)
    """
    Put the sealed text of the stored object in place of each given secret that is equal to it.

    So an import with secrets in plain text changes nothing if they are the stored ones.
    """
    for secret in list(secrets_of(value, schema)):
        known = counterpart(secret.place, given=value, stored=stored)
        given = secret.holder[secret.key]
        if known is not None and is_sealed(known) and not is_sealed(given) and can_open(known):
            secret.holder[secret.key] = known if unseal(known) == given else given


def _same_record(given: list[Any], index: int, stored: list[Any]) -> Any:  # noqa: ANN401 (JSON)
    """Return the stored record with the same name, or at the same index if the given one has no name."""
    name = _name_of(given[index])
    if name is None:
        return stored[index] if index < len(stored) else _ABSENT
    same = [record for record in stored if _name_of(record) == name]
    before = sum(_name_of(record) == name for record in given[:index])
    return same[before] if before < len(same) else _ABSENT


def _name_of(record: object) -> str | None:
    name = record.get(_NAME) if isinstance(record, Mapping) else None
    return name if isinstance(name, str) else None
