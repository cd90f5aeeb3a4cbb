"""
A record of the definitions that the main manager of the control partition has read to send them, so that it reads them
again only after a change.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# Age at which read definitions are read again in any case: some changes of a definition store no new version.
_READ_FOR: Final = dt.timedelta(seconds=30)
_NOTHING: Final = dt.timedelta()


@dataclass(slots=True)
class ReadDefinitions:
    """
    The jobs whose definitions a main manager read last, the versions of these definitions, and the time of this read. A
    new object requires a read.
    """

    _seen: object = None
    _at: dt.datetime | None = None

    def read_again(self) -> None:
        """Make the next pass read the definitions, because an operator changed something."""
        self._at = None

    def may_have_changed(self, jobs: Sequence[int], versions: object, *, now: dt.datetime) -> bool:
        """
        True if the definitions of these jobs must be read now. After a call that returned True, they count as read.

        `versions` changes only if a save of a definition keeps a version.
        """
        seen = (tuple(jobs), versions)
        # A negative age shows that the clock was set back.
        if seen == self._seen and self._at is not None and _NOTHING <= now - self._at < _READ_FOR:
            return False
        self._seen, self._at = seen, now
        return True
