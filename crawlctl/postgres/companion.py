"""
A program that runs as long as the server. The guardian starts it when the server runs, and ends it before the server.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

# Delay before a companion that ended is started again (seconds).
_AGAIN_AFTER: Final = 5.0
# Longest time in which a companion ends (seconds): it stores its last files.
_ENDS_WITHIN: Final = 8.0

_ROOT: Final = Path(__file__).resolve().parents[2]


class Companion:
    """The process of a module. It gets the server's address as its argument, and ends when its input ends."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[bytes] | None = None
        self._due_at = 0.0

    def tend(self, address: str) -> None:
        """Start the process if it does not run. Call this several times a second."""
        if not self._module or (self._process is not None and self._process.poll() is None):
            return
        if self._process is not None:
            self._forget()
            self._due_at = time.monotonic() + _AGAIN_AFTER
        if time.monotonic() >= self._due_at:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, address], cwd=_ROOT, stdin=subprocess.PIPE, stdout=2
            )

    def stop(self) -> None:
        """Let the process end, and kill it if that takes too long."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._forget()

    def _forget(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._process = None
