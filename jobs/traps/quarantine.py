"""The quarantine of a job: the suspects that hold back documents, and the modes of the trap guard."""

import enum
from collections.abc import Iterable, Sequence
from typing import Final

from jobs.traps.templates import grouped

# The result code of a document that is held back.
TRAP: Final = "TRAP"


class TrapGuard(enum.StrEnum):
    """The modes of the trap guard of a job."""

    OFF = "off"
    # Suspects are counted and shown.
    WATCH = "watch"
    # Documents of suspects are held back, too.
    HOLD = "hold"


class Quarantine:
    """The open suspects of a job, as (host, template, proven templates)."""

    def __init__(self, suspects: Iterable[tuple[str, str, Sequence[str]]]) -> None:
        self._hosts: dict[str, dict[str, frozenset[str]]] = {}
        for host, template, proven in suspects:
            self._hosts.setdefault(host, {})[template] = frozenset(proven)

    def group_of(self, url: str, *, host: str) -> str | None:
        """Return the template of the suspect that holds an address back; None if no suspect does."""
        suspects = self._hosts.get(host)
        if suspects is None:
            return None
        groups = grouped(url).groups
        own = groups[0].template
        for group in groups:
            proven = suspects.get(group.template)
            # If a template is a suspect itself, its earlier proof of new content does not count.
            if proven is not None and (own not in proven or own == group.template):
                return group.template
        return None
