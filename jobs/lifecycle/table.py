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

    `becomes` maps a dimension to its new value; from a source named in `unlike`, what that says instead.
    `requires` are values of dimensions that must hold besides. `guard` is the condition in words; `says` is
    what the journal and the button show. A row that `keeps_reason` leaves why the job stands where it stands.
    """

    name: str
    sources: frozenset[str]
    becomes: Mapping[str, object]
    owner: Owner
    guard: str = ""
    says: str = ""
    label: str = ""
    unlike: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    requires: Mapping[str, object] = field(default_factory=dict)
    keeps_reason: bool = False

    @property
    def verb(self) -> str:
        """Its name as one word, for addresses and commands."""
        return self.name.replace(" ", "-")

    def becomes_from(self, source: str) -> Mapping[str, object]:
        """What it sets in a state of this name."""
        return self.unlike.get(source, self.becomes)


def by_name(transitions: Iterable[Transition]) -> dict[str, Transition]:
    """The rows of a table by their name; two rows of one name are a mistake in the table."""
    table: dict[str, Transition] = {}
    for transition in transitions:
        if transition.name in table:
            raise ValueError(f"two transitions are named {transition.name!r}")
        table[transition.name] = transition
    return table
