"""The flow of documents through a manager. Arithmetic only: times are arguments."""

import math
from dataclasses import dataclass
from typing import Final

# Length of the past from which the mean is computed (seconds).
_MEMORY: Final = 1.0
# Documents a second of a steady flow.
_STEADY: Final = 80.0
# Documents offered since the last reading: the least number that shows a flow, and that a steady flow continues.
_FLOW: Final = 10
_FLOW_GOES_ON: Final = 1


@dataclass(slots=True)
class Flow:
    """
    The documents that a manager offers: their mean over the last second, and their number since the manager last read
    the conditions of its duties.
    """

    documents_a_second: float = 0.0
    _since_reading: int = 0
    _noted_at: float = -math.inf

    def note(self, documents: int, *, at: float) -> None:
        """Add the documents of a pass at this moment (seconds of a clock that is never set)."""
        self._since_reading += documents
        seconds = at - self._noted_at
        kept = math.exp(-seconds / _MEMORY)
        self._noted_at = at
        self.documents_a_second *= kept
        if 0 < seconds < math.inf:
            self.documents_a_second += (1 - kept) * documents / seconds

    @property
    def goes_on(self) -> bool:
        """True if documents flow since the last reading."""
        return self._since_reading >= (_FLOW_GOES_ON if self.is_steady else _FLOW)

    def note_reading(self) -> None:
        """Note that the manager reads the conditions of its duties now."""
        self._since_reading = 0

    @property
    def is_steady(self) -> bool:
        return self.documents_a_second >= _STEADY
