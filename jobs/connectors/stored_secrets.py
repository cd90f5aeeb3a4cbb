"""
Secrets of stored configurations: pages and the API show a mask in their place, and accept it back as "unchanged".

A place is a path such as `logins.0.fields.1.secret`. Records of a list are found by their `name`, so a secret stays
with its record if others are added or moved. A secret does not stay if its destination changes: otherwise, users who
cannot read a secret could have it sent to a server of their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jobs.connectors.schema import NOTHING, Field, Schema
from nodes.database.sealing import is_sealed
from nodes.errors import Invalid
from nodes.membership.changes import MASK

_NAME: Final = "name"
_ABSENT: Final = object()


def mask(value: Any) -> Any:  # noqa: ANN401 (JSON)
    """Return a stored value with the mask in place of each secret."""
    match value:
        case str():
            return MASK if is_sealed(value) else value
        case Mapping():
            return {name: mask(inner) for name, inner in value.items()}
        case list() | tuple():
            return [mask(inner) for inner in value]
        case _:
            return value


def unmask(given: Mapping[str, Any], *, stored: Mapping[str, Any], schema: Schema = NOTHING) -> dict[str, Any]:
    """
    Return a given configuration with the stored secret in place of each mask. `schema` names the destinations.

    Raises:
        Invalid: a mask is at a place without a stored secret, or its destination has changed.
    """
    made: dict[str, Any] = _copied(given)
    problems = {}
    for place, holder, key in list(_masks(made)):
        known, path = counterpart(place, given=given, stored=stored), f"configuration.{'.'.join(map(str, place))}"
        if known is not None and is_sealed(known):
            if why := why_not_kept(place, given=given, stored=stored, schema=schema):
                problems[path] = [why]
            holder[key] = known
        elif known != MASK:
            problems[path] = ["Write the secret, not its mask."]
    if problems:
        raise Invalid(problems)
    return made


def counterpart(place: Sequence[str | int], *, given: Any, stored: Any) -> str | None:  # noqa: ANN401 (JSON)
    """Return the stored text at a place of a given configuration; None if no text is stored there."""
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


def why_not_kept(place: Sequence[str | int], *, given: Any, stored: Any, schema: Schema) -> str:  # noqa: ANN401 (JSON)
    """Return the reason why the stored secret at a place must be written again, as a sentence; "" if it need not."""
    changed: list[str] = []
    for step in place:
        if isinstance(step, int):
            stored, given = _same_record(given, step, stored), given[step]
            continue
        changed += [field.name for field in schema.fields if field.is_destination and _differ(field, given, stored)]
        schema = next((field.records for field in schema.fields if field.name == step and field.records), NOTHING)
        stored, given = stored[step], given.get(step)
    return f"Write the secret again: it was stored for other values of {', '.join(changed)}." if changed else ""


def _differ(field: Field, given: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    default = field.choices[0][0] if field.choices else None
    return bool((given.get(field.name) or default) != (stored.get(field.name) or default))


def _masks(value: Any, *, below: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any, Any]]:  # noqa: ANN401 (JSON)
    """Yield each mask as three values: its place, the list or mapping that contains it, and its key there."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        if inner == MASK:
            yield (*below, key), value, key
        else:
            yield from _masks(inner, below=(*below, key))


def _copied(value: Any) -> Any:  # noqa: ANN401 (JSON)
    if isinstance(value, Mapping):
        return {name: _copied(inner) for name, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


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
