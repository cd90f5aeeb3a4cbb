"""
The users' side of the embedded server: start it if needed, and hold it while this process lives.

The call is cheap while the server runs (two attempts at locks, one small file to read). So callers may repeat it at
every reconnect, which also brings back a server that was lost with its guardian.
"""

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from crawlctl.postgres.account import Announce
from crawlctl.postgres.binaries import find_binaries
from crawlctl.postgres.errors import USE_ANOTHER, EmbeddedPostgresError
from crawlctl.postgres.home import Home
from crawlctl.postgres.locks import FileLock, is_held_exclusively
from crawlctl.postgres.server import START_WITHIN, last_lines

# Longest wait for the server (seconds). Another process may be creating or starting it, the server may be replaying its
# log, or an earlier server may be stopping.
_WAIT_AT_MOST = 2 * START_WITHIN
_LOOK_EVERY = 0.02

# Longest waits of an ending process: for the guardian to notice its last user's end, and to stop (seconds).
_NOTICED_WITHIN = 1.0
_STOPPED_WITHIN = 10.0

# Seconds between two attempts of a process: each of its threads calls, and a failed attempt starts a server.
_AGAIN_AFTER = 2.0

_LARGEST_LOG = 10_000_000

_ROOT = Path(__file__).resolve().parents[2]

_holds: dict[Path, FileLock] = {}
_one_at_a_time = threading.Lock()
# Time (monotonic) and reason of the last failed attempt, by directory.
_failed: dict[Path, tuple[float, str]] = {}


def ensure_running(directory: Path, *, announce: Announce, companion: str = "") -> str:
    """
    Return the libpq URI of the embedded database of that directory, which runs while this process lives.

    The first call creates what is missing: the directory, the database, the server. `announce` gets a line about each
    step that takes time or changes something. `companion` is a module that the guardian runs as long as the server, in
    a separate process. A forked child holds the server itself from the fork on. A newly started program has to call
    this.

    Raises:
        EmbeddedPostgresError: the server is not available. The message says why, and what to do.
    """
    home = Home(directory.absolute())
    with _one_at_a_time:
        failed_at, message = _failed.get(home.directory, (float("-inf"), ""))
        if time.monotonic() - failed_at < _AGAIN_AFTER:
            raise EmbeddedPostgresError(message)
        try:
            return _join_at(home, announce=announce, companion=companion)
        except EmbeddedPostgresError as error:
            _failed[home.directory] = (time.monotonic(), str(error))
            raise


def _join_at(home: Home, *, announce: Announce, companion: str) -> str:
    try:
        home.directory.mkdir(parents=True, exist_ok=True)
        return _join(home, announce=announce, companion=companion)
    except OSError as error:
        raise EmbeddedPostgresError(
            f"the embedded PostgreSQL cannot use {home.directory}: {error.strerror or error}. "
            f"Make room or make it writable, or {USE_ANOTHER}"
        ) from error


def _join(home: Home, *, announce: Announce, companion: str) -> str:
    """Become a user, then find the server or start it. So a process that starts the server is already a user."""
    deadline = time.monotonic() + _WAIT_AT_MOST
    while time.monotonic() < deadline:
        if _is_user(home):
            if is_held_exclusively(home.guardian_lock):
                if (address := home.read_address()) is not None:
                    return address
            elif (address := _start_unless_another_does(home, announce=announce, companion=companion)) is not None:
                return address
        time.sleep(_LOOK_EVERY)
    raise EmbeddedPostgresError(
        f"the embedded PostgreSQL did not come up within {_WAIT_AT_MOST:.0f} seconds. The end of {home.log}:\n"
        + (last_lines(home.log, since=0) if home.log.exists() else "")
    )


def _is_user(home: Home) -> bool:
    """True if this process is a user now; False while a server is being stopped."""
    hold = _holds.get(home.directory)
    if hold is not None and hold.is_of_this_path():
        return True
    if hold is not None:
        # The directory was deleted, so our lock holds the server of a deleted cluster.
        _holds.pop(home.directory).close()
    return _hold(home.directory)


def _hold(directory: Path) -> bool:
    lock = FileLock(Home(directory).users_lock)
    if not lock.take_shared():
        lock.close()
        return False
    _holds[directory] = lock
    return True


def _start_unless_another_does(home: Home, *, announce: Announce, companion: str) -> str | None:
    """Start a guardian and return the server's address; None if another process is starting one."""
    starting = FileLock(home.starting_lock)
    try:
        if not starting.take_exclusively() or is_held_exclusively(home.guardian_lock):
            return None
        # Withdrawn before the guardian exists: a process that sees a guardian must not read the address of an earlier
        # server.
        home.withdraw_address()
        return _start(home, announce=announce, companion=companion)
    finally:
        starting.close()


def _start(home: Home, *, announce: Announce, companion: str) -> str:
    find_binaries()
    if home.log.exists() and home.log.stat().st_size > _LARGEST_LOG:
        home.log.replace(home.log.with_suffix(".log.old"))
    with home.log.open("ab") as log:
        size_of_log = log.tell()
        home.log.chmod(0o600)
        with subprocess.Popen(
            [sys.executable, "-m", "crawlctl.postgres.guardian", str(home.directory), *filter(None, [companion])],
            cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
        ) as launcher:  # fmt: skip
            assert launcher.stdout is not None
            for line in launcher.stdout:
                message = json.loads(line)
                if "announce" in message:
                    announce(message["announce"])
                elif "error" in message:
                    raise EmbeddedPostgresError(message["error"])
                else:
                    return str(message["address"])
    raise EmbeddedPostgresError(
        f"the guardian of the embedded PostgreSQL ended. The end of {home.log}:\n"
        + last_lines(home.log, since=size_of_log)
    )


def _hold_for_ourselves() -> None:
    """
    In a forked child, open the locks again, then close the parent's.

    The order matters, because the parent may be killed at any moment. Closing does not release the parent's lock. If
    the guardian was faster, the next `ensure_running` starts the server again.
    """
    global _one_at_a_time  # noqa: PLW0603 - a thread of the parent, which this process lacks, may hold it
    _one_at_a_time = threading.Lock()
    inherited = dict(_holds)
    _holds.clear()
    for directory, lock in inherited.items():
        # If the directory no longer exists, there is no server to hold.
        with contextlib.suppress(OSError):
            _hold(directory)
        lock.close()


def let_go() -> None:
    """
    Release the server, at the end of the process or of its use of a database. If no other process uses it, wait until
    it has stopped.

    So a returning command leaves nothing behind. An attempt at the exclusive lock shows whether this is the last user.
    The attempt also drops the shared lock, as intended.
    """
    for directory, lock in _holds.items():
        home = Home(directory)
        is_last = lock.is_of_this_path() and lock.take_exclusively()
        lock.close()
        if is_last:
            _wait_until_stopped(home)
    _holds.clear()


def _wait_until_stopped(home: Home) -> None:
    """Wait until the guardian has ended, unless it stays for a new user."""
    began_at = time.monotonic()
    while is_held_exclusively(home.guardian_lock):
        waited = time.monotonic() - began_at
        is_still_in_use = waited > _NOTICED_WITHIN and home.read_address() is not None
        if is_still_in_use or waited > _STOPPED_WITHIN:
            return
        time.sleep(_LOOK_EVERY)


os.register_at_fork(after_in_child=_hold_for_ourselves)
atexit.register(let_go)
