"""A log handler that reports lines it could not write: immediately on standard output, and later in the log itself."""

import datetime as dt
import logging
import os
import stat
import sys
from contextlib import suppress
from typing import Final, TextIO

# Free bytes below which a file on this disk may not get another block.
_LEAST_FREE: Final = 64 * 1024


class LogHandler(logging.StreamHandler[TextIO]):
    """A stream handler that reports the lines it could not write."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        self._failing_since: dt.datetime | None = None
        self._why = ""

    def emit(self, record: logging.LogRecord) -> None:
        if self._failing_since is not None:
            since = self._failing_since.isoformat(timespec="seconds")
            message = f"the log could not be written since {since} ({self._why}): lines may be missing here"
            notice = logging.makeLogRecord(
                {"name": __name__, "levelno": logging.ERROR, "levelname": "ERROR", "msg": message}
            )
            try:
                self.stream.write(self.format(notice) + self.terminator)
                self.stream.flush()
            except OSError:
                return
            self._failing_since = None
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (logging's own name)
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._failing_since, self._why = dt.datetime.now(dt.UTC), error.strerror or str(error)
        print_to_standard_output(self._why)


def print_to_standard_output(why: str) -> None:
    """Report on standard output that the log cannot be written."""
    with suppress(OSError):
        sys.stdout.write(f"The log (standard error) cannot be written: {why}. Make room, or send it elsewhere.\n")
        sys.stdout.flush()


def why_unwritable(descriptor: int = 2, *, least: int = _LEAST_FREE) -> str:
    """
    Return the reason why lines of a log are lost; '' if the log can be written, or if only a write can show whether it
    can.
    """
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        disk = os.fstatvfs(descriptor)
    except OSError as error:
        return error.strerror or str(error)
    return "its disk is full" if disk.f_bavail * disk.f_frsize < least else ""
