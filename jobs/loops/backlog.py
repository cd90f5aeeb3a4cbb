"""How far the search index is behind, and what a worker does about it: first more at a time, then it reads no more."""

from typing import Final

from jobs.duties.index import Indexed

# Texts that are made searchable between two flushes; more of them once they have waited so long (seconds).
_TEXTS_AT_ONCE: Final = 25
MORE_TEXTS_AT_ONCE: Final = 100
_HASTENS: Final = 0.5
# Who finds more than can be indexed has to read more slowly: what has been taken already comes on top of that.
_HOLDS: Final = 1.5


class Backlog:
    """What a worker knows of the texts that wait: how long the first of them had waited when it looked."""

    def __init__(self) -> None:
        self._behind = 0.0

    @property
    def at_once(self) -> int:
        """How many texts to index before anything else is written."""
        return _TEXTS_AT_ONCE if self._behind < _HASTENS else MORE_TEXTS_AT_ONCE

    @property
    def holds(self) -> bool:
        """Whether no more documents are to be taken until the index has come nearer."""
        return self._behind >= _HOLDS

    def note(self, indexed: Indexed) -> bool:
        """Note what was done of `at_once`; returns whether more may wait."""
        has_more = indexed.texts == self.at_once
        self._behind = indexed.behind if has_more else 0.0
        return has_more
