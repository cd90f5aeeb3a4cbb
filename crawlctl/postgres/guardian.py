"""
The process that starts the server, keeps it running while any process uses it, and stops it after the last user.

`python -m crawlctl.postgres.guardian DIRECTORY [MODULE]` returns immediately. The guardian continues to run. It also
runs the module, in a separate process (`companion.py`). The guardian reports on standard output, one JSON object a
line, and closes the output after the last object: `{"announce": …}` any number of times, then `{"address": …}` or
`{"error": …}`. Its standard error is the server's log.
"""

import json
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from crawlctl.postgres.account import choose_account
from crawlctl.postgres.binaries import find_binaries
from crawlctl.postgres.companion import Companion
from crawlctl.postgres.errors import EmbeddedPostgresError
from crawlctl.postgres.home import Home, address_of
from crawlctl.postgres.locks import FileLock
from crawlctl.postgres.server import Postmaster, Server

# Interval between two checks for users and for a dead server (seconds).
_LOOK_EVERY = 0.1

_LOCK_WITHIN = 5.0

_STOP_REQUESTS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_SIGNALS = {*_STOP_REQUESTS, signal.SIGCHLD}


def main(directory: str, module: str = "") -> None:
    """
    Start a guardian for that directory, unless it has one already. The guardian continues when this process has ended.
    """
    if os.fork() != 0:
        # The caller waits for this process, and never for the guardian, which init adopts.
        os._exit(0)
    os.umask(0o077)
    # Signals are waited for, not handled, so that the guardian does one thing after the other.
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    report = Report()
    try:
        Guardian(Home(Path(directory)), report, Companion(module)).guard()
    except EmbeddedPostgresError as error:
        report.fail(str(error))
    except OSError as error:
        report.fail(f"the embedded PostgreSQL cannot run below {directory}: {error}")


@dataclass
class Report:
    """The messages to the process that started the guardian and waits. That process may end early."""

    _is_open: bool = True

    def announce(self, line: str) -> None:
        self._write({"announce": line})

    def succeed(self, address: str) -> None:
        self._write({"address": address})
        self._close()

    def fail(self, message: str) -> None:
        print(f"guardian: {message}", file=sys.stderr, flush=True)  # noqa: T201 - this is the log
        self._write({"error": message})
        self._close()

    def _write(self, message: dict[str, str]) -> None:
        if not self._is_open:
            return
        try:
            os.write(1, f"{json.dumps(message)}\n".encode())
        except BrokenPipeError:
            self._close()

    def _close(self) -> None:
        """Close the pipe, so that its reader sees the end."""
        if not self._is_open:
            return
        self._is_open = False
        os.dup2(2, 1)


@dataclass
class Guardian:
    home: Home
    report: Report
    companion: Companion
    _lock: FileLock = field(init=False)

    def guard(self) -> None:
        """
        Run the server until no process uses it.

        Raises:
            EmbeddedPostgresError: the server cannot run, or cannot run any longer.
        """
        self._lock = self._take_the_guardians_lock()
        server = self._prepare_server()
        socket_directory = self.home.claim_socket_directory(owner=server.account.uid)
        server.account.take_over(socket_directory)
        users = FileLock(self.home.users_lock)
        postmaster: Postmaster | None = None
        is_unused = False
        try:
            postmaster = server.start(socket_directory=socket_directory)
            self._publish(socket_directory)
            # If the users' lock was taken, this process keeps it to its end, so that no process becomes a user
            # meanwhile.
            while not (is_unused := users.take_exclusively()) and not _is_asked_to_stop(within=_LOOK_EVERY):
                if postmaster.has_ended():
                    self._withdraw()
                    postmaster = server.start(socket_directory=socket_directory)
                    self._publish(socket_directory)
                self.companion.tend(address_of(socket_directory))
        finally:
            self._withdraw()
            self.companion.stop()
            if postmaster is not None:
                postmaster.stop()
            # Keep the directory of the socket if other processes still use the server, for example after a full disk:
            # they expect the next server at the same address.
            if is_unused:
                self.home.remove_socket_directory(socket_directory)
            self._lock.close()

    def _take_the_guardians_lock(self) -> FileLock:
        lock = FileLock(self.home.guardian_lock)
        # Retried, because a process that checks for a guardian holds this lock for an instant.
        deadline = time.monotonic() + _LOCK_WITHIN
        while not lock.take_exclusively():
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(f"another guardian holds {self.home.guardian_lock}")
            time.sleep(0.001)
        return lock

    def _prepare_server(self) -> Server:
        binaries = find_binaries()
        account = choose_account(home=self.home, binaries=binaries, announce=self.report.announce)
        server = Server(home=self.home, binaries=binaries, account=account)
        if server.has_cluster():
            server.check_cluster()
            server.take_over_cluster()
        else:
            self.report.announce(f"creating a PostgreSQL database below {self.home.directory}")
            server.create_cluster()
        return server

    def _publish(self, socket_directory: Path) -> None:
        address = address_of(socket_directory)
        if self._is_at_home():
            self.home.write_address(address)
        self.report.succeed(address)

    def _withdraw(self) -> None:
        if self._is_at_home():
            self.home.withdraw_address()

    def _is_at_home(self) -> bool:
        """True if the directory is still the one that we guard: it may have been deleted and created again."""
        return self._lock.is_of_this_path()


def _is_asked_to_stop(*, within: float) -> bool:
    """Wait for a signal. Return True if the signal requests a stop although there are users."""
    received = signal.sigtimedwait(_SIGNALS, within)
    return received is not None and received.si_signo in _STOP_REQUESTS


if __name__ == "__main__":
    main(*sys.argv[1:])
