"""A lifecycle as a table: each row says what may happen, from where, to where, and who may do it."""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


class Owner(enum.StrEnum):
    """Who makes a transition."""

    OPERATOR = "operator"
    MAIN = "main"
    GROUP_OWNER = "group's owner"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Transition:
    """
    One row: `name` happens in a state named in `sources` and sets `becomes`.

    `becomes` maps a dimension to its new value. `guard` is the condition in words; `says` is what
    the journal and the button show.
    """

    name: str
    sources: frozenset[str]
    becomes: Mapping[str, object]
    owner: Owner
    guard: str = ""
    says: str = ""
    label: str = field(default="")


def by_name(transitions: Iterable[Transition]) -> dict[str, Transition]:
    """The rows of a table by their name; two rows of one name are a mistake in the table."""
    table: dict[str, Transition] = {}
    for transition in transitions:
        if transition.name in table:
            raise ValueError(f"two transitions are named {transition.name!r}")
        table[transition.name] = transition
    return table
