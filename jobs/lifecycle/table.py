"""A lifecycle as a table: each row is a transition with its sources, its effect and its owner."""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


class Owner(enum.StrEnum):
    """The owner of a transition: the operator, or the kind of process, that may make the transition."""

    OPERATOR = "operator"
    MAIN = "main"
    GROUP_OWNER = "group's owner"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Transition:
    """
    One row: `name` is possible in a situation named in `sources` and sets `becomes`.

    `becomes` maps a dimension to its new value. For a source in `unlike`, the mapping in `unlike` replaces `becomes`.
    `requires` are further dimensions with their required values. `guard` is the condition in words. `message` is the
    text of the journal. A row that `keeps_reason` does not clear the reason for the job's state.
    """

    name: str
    sources: frozenset[str]
    becomes: Mapping[str, object]
    owner: Owner
    guard: str = ""
    message: str = ""
    label: str = ""
    unlike: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    requires: Mapping[str, object] = field(default_factory=dict)
    keeps_reason: bool = False

    @property
    def verb(self) -> str:
        """Return the name of the transition as one word, for addresses and commands."""
        return self.name.replace(" ", "-")

    @property
    def kind(self) -> str:
        """Return the kind of the journal entries that this transition writes."""
        return self.name.replace(" ", "_")

    def values_from(self, source: str) -> Mapping[str, object]:
        """Return the new values that the transition sets in a situation with this name."""
        return self.unlike.get(source, self.becomes)


def by_name(transitions: Iterable[Transition]) -> dict[str, Transition]:
    """Return the rows of a table by name. Raise ValueError if two rows have one name."""
    table: dict[str, Transition] = {}
    for transition in transitions:
        if transition.name in table:
            raise ValueError(f"two transitions are named {transition.name!r}")
        table[transition.name] = transition
    return table
