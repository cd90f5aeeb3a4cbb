"""Standard output and standard error of a daemon in JSON mode: each line is a JSON object."""

import datetime as dt
import io
import json
import os
import sys
import threading
from collections.abc import Sequence
from typing import Final, TextIO

from jobs.settings.table import LOG_JSON, TABLE
from nodes.settings.declaration import InvalidSettings, SettingError, read_environment
from nodes.settings.effective import Effective

# Commands that run until they are stopped. Other commands print for a person or for a program that parses their output.
_DAEMONS: Final = frozenset({"run", "runmanager", "runworker", "runjobs", "serve"})


class JsonLines(io.TextIOBase):
    """A stream that passes JSON objects on, and turns every other line into an object."""

    def __init__(self, stream: TextIO, *, level: str) -> None:
        self._stream, self._level = stream, level
        self._lock = threading.Lock()
        self._begun = ""

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._begun = (self._begun + text).split("\n")
            for line in lines:
                if line.strip():
                    self._stream.write(f"{self._as_json(line)}\n")
            self._stream.flush()
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    def _as_json(self, line: str) -> str:
        if line.startswith("{"):
            try:
                json.loads(line)
            except ValueError:
                pass
            else:
                return line
        values = {
            "event": line,
            "level": self._level,
            "logger": "crawlctl",
            "timestamp": dt.datetime.now(dt.UTC).isoformat(),
        }
        return json.dumps(values)


def use_json_lines(arguments: Sequence[str]) -> None:
    """Make a daemon in JSON mode write only JSON lines."""
    command = arguments[1] if len(arguments) > 1 else ""
    if command not in _DAEMONS or {"--help", "-h"} & set(arguments) or not _uses_json():
        return
    sys.stdout = JsonLines(sys.stdout, level="info")
    sys.stderr = JsonLines(sys.stderr, level="warning")


def _uses_json() -> bool:
    try:
        return Effective(table=TABLE, environment=read_environment(TABLE, os.environ))[LOG_JSON]
    except (SettingError, InvalidSettings):
        # The command itself reports the invalid setting.
        return False
