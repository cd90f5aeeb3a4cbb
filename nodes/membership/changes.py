"""The fields of a change, before and after, for the journals. They never contain secrets."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from django.core.serializers.json import DjangoJSONEncoder

from nodes.database.sealing import MARK, is_sealed
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.models import NodeEvent

MASK: Final = "(secret)"
ANOTHER_MASK: Final = "(another secret)"
# Largest numbers of items of a list, and of characters of a text, that a journal keeps.
_ITEMS: Final = 20
_CHARACTERS: Final = 500
# Largest numbers of fields, and of characters of a value, in a sentence.
_FIELDS_IN_WORDS: Final = 5
_CHARACTERS_IN_WORDS: Final = 60

Differences = dict[str, dict[str, Any]]


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Differences:
    """
    Return the fields that differ, each with its value `before` and `after`. Inner fields have names such as
    `outer.inner`.
    """
    old, new = dict(_flat(_as_json(before))), dict(_flat(_as_json(after)))
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return {name: _pair(old.get(name), new.get(name)) for name in changed}


def in_words(changed: Differences) -> str:
    """Return a phrase such as `priority 5 → 1, name "a" → "b"`."""
    phrases = [f"{name} {_in_words(pair['before'])} → {_in_words(pair['after'])}" for name, pair in changed.items()]
    more = [f"and {len(phrases) - _FIELDS_IN_WORDS} more fields"] if len(phrases) > _FIELDS_IN_WORDS else []
    return ", ".join([*phrases[:_FIELDS_IN_WORDS], *more])


def record_change(what: str, *, before: Mapping[str, Any], after: Mapping[str, Any], made_by: str) -> None:
    """Write a line into the cluster's journal: a creation (nothing before), a deletion (nothing after) or a change."""
    changed = differences(before, after)
    if not changed:
        return
    verb = "changed" if before and after else "created" if after else "deleted"
    words = f": {in_words(changed)}" if verb == "changed" else ""
    by = f" by {made_by}" if made_by else ""
    NodeEvent.objects.create(
        scope=CLUSTER_SCOPE,
        kind=NodeEvent.Kind.CHANGED,
        message=f"{what} was {verb}{by}{words}",
        detail={"by": made_by, "changes": changed},
    )


def record_request(
    message: str,
    *,
    made_by: str,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    **detail: object,
) -> None:
    """Write a line about a request of an operator into the cluster's journal, with the changed fields."""
    changed = differences(before or {}, after or {})
    changes = {"changes": changed} if changed else {}
    NodeEvent.objects.create(
        scope=CLUSTER_SCOPE, kind=NodeEvent.Kind.ASKED, message=message, detail={"by": made_by, **detail, **changes}
    )


def as_secret(value: str) -> str:
    """Return a value that hides a secret in the journal. Two such values differ if the secrets differ."""
    return f"{MARK}{value}"


def _as_json(facts: Mapping[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(json.dumps(facts, cls=DjangoJSONEncoder))
    return read


def _flat(facts: Mapping[str, Any], *, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in facts.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, path=f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _pair(before: object, after: object) -> dict[str, Any]:
    shown_before, shown_after = _shown(before), _shown(after)
    if shown_before == shown_after and _has_secret(after):
        shown_after = ANOTHER_MASK
    return {"before": shown_before, "after": shown_after}


def _shown(value: object) -> object:
    match value:
        case str():
            if is_sealed(value):
                return MASK
            return value if len(value) <= _CHARACTERS else f"{value[:_CHARACTERS]}… ({len(value):,} characters)"
        case list():
            more = [f"… and {len(value) - _ITEMS:,} more"] if len(value) > _ITEMS else []
            return [*map(_shown, value[:_ITEMS]), *more]
        case dict():
            return {name: _shown(inner) for name, inner in value.items()}
        case _:
            return value


def _has_secret(value: object) -> bool:
    match value:
        case str():
            return is_sealed(value)
        case list():
            return any(map(_has_secret, value))
        case dict():
            return any(map(_has_secret, value.values()))
        case _:
            return False


def _in_words(value: object) -> str:
    if isinstance(value, str) and value in {MASK, ANOTHER_MASK}:
        return value
    written = json.dumps(value, ensure_ascii=False)
    return written if len(written) <= _CHARACTERS_IN_WORDS else f"{written[:_CHARACTERS_IN_WORDS]}…"
