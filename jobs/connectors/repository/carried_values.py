"""Values that references carry, in the form in which the database stores them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from jobs.connectors.repository.base import Carried, Reference


def in_order(carry: Mapping[str, Iterable[str]]) -> Carried:
    return {storable(name): tuple(sorted({storable(value) for value in values})) for name, values in carry.items()}


def joined(known: Reference, again: Reference) -> Reference:
    """Return a reference that was reported twice, with the carried values of both."""
    if not again.carry:
        return known
    both = known.carry or {}
    values = {name: {*both.get(name, ()), *again.carry.get(name, ())} for name in {*both, *again.carry}}
    return replace(known, carry=in_order(values))


def storable(text: str) -> str:
    """Return the text without characters that a database cannot store: zero bytes, and half surrogate pairs."""
    return text.encode(errors="replace").decode().replace("\0", "?")
