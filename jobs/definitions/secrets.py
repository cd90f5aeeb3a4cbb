"""
Secrets in definitions: left out at an export, and taken from the stored object at an import.

A place is a path such as `configuration.logins.0.fields.1.secret`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jobs.connectors.schema import NOTHING, FieldKind, Schema
from jobs.connectors.stored_secrets import counterpart
from nodes.database.sealing import can_open, is_sealed, unseal


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


def find_holder(value: Any, path: str) -> tuple[tuple[str | int, ...], dict[str, Any]] | None:  # noqa: ANN401 (JSON)
    """
    Return the place to which a path leads, as a tuple of keys and indices, and the mapping that contains it; None if
    the value has no such place.
    """
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

    So an import whose plain secrets equal the stored ones changes nothing.
    """
    for secret in list(secrets_of(value, schema)):
        known = counterpart(secret.place, given=value, stored=stored)
        given = secret.holder[secret.key]
        if known is not None and is_sealed(known) and not is_sealed(given) and can_open(known):
            secret.holder[secret.key] = known if unseal(known) == given else given
