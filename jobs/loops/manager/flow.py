"""The flow of documents through a manager: arithmetic."""

import math
from dataclasses import dataclass
from typing import Final

# Seconds of the past whose mean is the flow.
_MEMORY: Final = 1.0
# Documents a second of a steady flow.
_STEADY: Final = 80.0


@dataclass(slots=True)
class Flow:
    """The documents that a manager offers a second: the mean of the last second."""

    documents_a_second: float = 0.0
    _noted_at: float = -math.inf

    def note(self, documents: int, *, at: float) -> None:
        """Note the documents of a pass at this moment (seconds of a clock that is never set)."""
        seconds = at - self._noted_at
        kept = math.exp(-seconds / _MEMORY)
        self._noted_at = at
        self.documents_a_second *= kept
        if 0 < seconds < math.inf:
            self.documents_a_second += (1 - kept) * documents / seconds

    @property
    def is_steady(self) -> bool:
        return self.documents_a_second >= _STEADY
