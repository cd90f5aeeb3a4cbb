"""
Processes that are forked from a parent which has imported everything, so a start costs a twentieth of a new Python.

`start` is the call of tests. The parent is `tests.support.fork_server`. It runs once for each process of pytest, and
ends with it. A forked command behaves as a new Python: it reads its environment and settings again, and has its own
session, signals, output files and exit code. Where that is impossible, the forked process executes Python instead.
"""

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.lifetimes import ENDS_WITH_PYTEST

ROOT = Path(__file__).resolve().parents[2]
# Bytes of the command line that `ps` shows for a forked process.
ROOM_FOR_WORDS = 2000


def start(words, *, stdout, stderr=None, env=None, start_new_session=False):
    """Start a program of crawlctl that ends with pytest. `words` is its command line, as for Popen."""
    return _server().start(
        words, stdout=stdout, stderr=stderr, env=env, start_new_session=start_new_session, ends_with_parent=True
    )


@functools.cache
def _server():
    """
    Start the fork server of this process. The server ends with the thread that called first, or when its connection
    closes.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        room = "-" * ROOM_FOR_WORDS
        process = subprocess.Popen(
            [*ENDS_WITH_PYTEST, sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno()), room],
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            # A Ctrl-C in the terminal is for pytest, which ends its processes.
            start_new_session=True,
        )
    atexit.register(_end, ours, process)
    return ForkServer(ours)


def _end(line, process):
    line.close()
    process.wait()


class ForkServer:
    """The connection of a test process to the fork server."""

    def __init__(self, line):
        self._line = line

    def start(
        self,
        words,
        *,
        stdin=None,
        stdout=None,
        stderr=None,
        env=None,
        cwd=None,
        pass_fds=(),
        start_new_session,
        ends_with_parent,
    ):
        """Fork a process. The arguments are those of Popen."""
        assert cwd is None or Path(cwd) == ROOT
        with contextlib.ExitStack() as theirs:
            stdin, to_child = _file(stdin, theirs, writes=True)
            stdout, from_child = _file(stdout, theirs, writes=False)
            stderr, _ = _file(stderr, theirs, writes=False, usual=2)
            reports, report = os.pipe()
            theirs.callback(os.close, report)
            asked = {
                "words": [os.fspath(word) for word in words],
                "environment": dict(os.environ if env is None else env),
                "has_session": start_new_session,
                "ends_with_parent": ends_with_parent,
                "keeps": list(pass_fds),
            }
            files = [report, stdin, stdout, stderr, *pass_fds]
            socket.send_fds(self._line, [json.dumps(asked).encode()], files)
        return Forked(words, reports, stdin=to_child, stdout=from_child)


def _file(target, closed_later, *, writes, usual=None):
    """Return the file descriptor for the child; for a pipe, also the end that this process keeps."""
    if target == subprocess.PIPE:
        reading, writing = os.pipe()
        theirs, ours = (reading, writing) if writes else (writing, reading)
        closed_later.callback(os.close, theirs)
        return theirs, open(ours, "wb" if writes else "rb", buffering=0 if writes else -1)  # noqa: PTH123
    if target is None and usual is not None:
        return usual, None
    if target is None or target == subprocess.DEVNULL:
        theirs = os.open(os.devnull, os.O_RDWR)
        closed_later.callback(os.close, theirs)
        return theirs, None
    return (target if isinstance(target, int) else target.fileno()), None


class Forked:
    """A forked process, with the calls of a Popen. Its server reports its pid and its end."""

    def __init__(self, words, reports, *, stdin, stdout):
        self.args, self.stdin, self.stdout, self.returncode = words, stdin, stdout, None
        self._reports = open(reports, "rb")  # noqa: SIM115, PTH123
        self.pid = int(self._reports.readline() or self._fail())

    def poll(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout=None):
        if self.returncode is None:
            readable, _, _ = select.select([self._reports], [], [], timeout)
            if not readable:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = int(self._reports.readline() or self._fail())
            self._reports.close()
        return self.returncode

    def send_signal(self, number):
        # The pid of a process that has ended may belong to another.
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def _fail(self):
        raise AssertionError(f"the fork server ended, and so did {self.args}")
