"""The flow of documents through a manager. Arithmetic only: times are arguments."""

import math
from dataclasses import dataclass
from typing import Final

# Length of the past from which the mean is computed (seconds). It is longer than the usual time between two passes that
# offer documents: a manager with few workers offers some hundred documents every two or three seconds.
_MEMORY: Final = 3.0
# Least number of documents a second in a steady flow.
_STEADY: Final = 40.0
# Longest time without an offer (seconds) in which a steady flow continues.
_GAP: Final = 3.0
# Least number of documents, offered since the conditions of duties were last read, that shows a flow before it is
# steady.
_FLOW: Final = 10


@dataclass(slots=True)
class DocumentFlow:
    """
    The documents that a manager offers: their mean over the last seconds, and their number since the manager last read
    the conditions of its duties.
    """

    documents_a_second: float = 0.0
    _since_reading: int = 0
    _noted_at: float = -math.inf
    _offered_at: float = -math.inf

    def note(self, documents: int, *, at: float) -> None:
        """Add the documents of a pass at this moment (seconds of a monotonic clock)."""
        self._since_reading += documents
        if documents:
            self._offered_at = at
        seconds = at - self._noted_at
        kept = math.exp(-seconds / _MEMORY)
        self._noted_at = at
        self.documents_a_second *= kept
        if 0 < seconds < math.inf:
            self.documents_a_second += (1 - kept) * documents / seconds

    def goes_on(self, *, at: float) -> bool:
        """True if documents flow at this moment, so that the conditions of most duties stay as they are."""
        return self._since_reading >= _FLOW or (self.is_steady and at - self._offered_at <= _GAP)

    def note_reading(self) -> None:
        """Note that the manager reads the conditions of its duties now."""
        self._since_reading = 0

    @property
    def is_steady(self) -> bool:
        return self.documents_a_second >= _STEADY
