"""
The lag of the search index, and a worker's reaction: it indexes more texts at a time, then stops reading documents.
"""

from typing import Final

from jobs.duties.index import Indexed

# Number of texts that are indexed between two flushes; the larger number for a worker that is behind; and the wait of a
# text from which on a worker is behind (seconds).
_TEXTS_AT_ONCE: Final = 25
MORE_TEXTS_AT_ONCE: Final = 100
_IS_BEHIND: Final = 0.5
# Wait (seconds) above which the worker takes no documents. The limit is low, because the documents that the worker has
# already claimed will add to the backlog.
_HOLDS: Final = 1.5


class Backlog:
    """The backlog of texts to index: the longest wait of a text at this worker's last check."""

    def __init__(self) -> None:
        self._behind = 0.0

    @property
    def at_once(self) -> int:
        """Return the number of texts to index before the next flush."""
        return _TEXTS_AT_ONCE if self._behind < _IS_BEHIND else MORE_TEXTS_AT_ONCE

    @property
    def holds(self) -> bool:
        """True if the worker must take no more documents until the index catches up."""
        return self._behind >= _HOLDS

    def note(self, indexed: Indexed) -> bool:
        """Record the result of indexing `at_once` texts; return True if more may wait."""
        has_more = indexed.texts == self.at_once
        self._behind = indexed.behind if has_more else 0.0
        return has_more
