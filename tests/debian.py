"""A cluster of Debian's PostgreSQL that a test has for itself: it may configure it, and end it as it likes."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from crawlctl.postgres.account import choose_account
from crawlctl.postgres.binaries import Binaries
from crawlctl.postgres.home import Home, address_of
from crawlctl.postgres.server import Postmaster, Server

_DEBIAN = Path("/usr/lib/postgresql")
# Seconds in which a server ends that was told to.
_ENDS_WITHIN = 20.0


class DebianServer:
    """The server; `address` stays the same over its restarts."""

    def __init__(self, server: Server, sockets: Path) -> None:
        self.server, self.sockets = server, sockets
        self.address = address_of(sockets)
        self._postmaster: Postmaster | None = None

    def start(self) -> None:
        """Start it, after whatever end."""
        self._postmaster = self.server.start(socket_directory=self.sockets)

    @property
    def pid(self) -> int:
        assert self._postmaster is not None
        return self._postmaster.process.pid

    @property
    def data(self) -> Path:
        """The directory that all of its processes work in."""
        return self.server.home.data

    def end(self, number: signal.Signals) -> None:
        """SIGINT ends it in order, SIGQUIT at once, SIGKILL as a crash would."""
        assert self._postmaster is not None
        process = self._postmaster.process
        process.send_signal(number)
        try:
            process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            # PostgreSQL 15 that is told to end in order in the middle of a recovery waits for its checkpointer, and tells it
            # nothing: for ever. An operator loses patience then, too.
            process.send_signal(signal.SIGQUIT)
            process.wait()

    def promote(self) -> None:
        """Let a standby that has started be a primary."""
        with psycopg.connect(self.address, dbname="postgres", autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")

    def stop(self) -> None:
        """End it, if it was started."""
        if self._postmaster is not None:
            self._postmaster.stop()


@contextlib.contextmanager
def debian_server(directory: Path, *, configuration: str = "") -> Iterator[DebianServer]:
    """Run a new cluster below `directory`, with these lines in its configuration."""
    programs = newest_debian()
    assert programs is not None, "install Debian's package postgresql"
    home = Home(directory)
    home.directory.mkdir(parents=True)
    home.log.touch()
    binaries = Binaries(programs)
    account = choose_account(home=home, binaries=binaries, announce=lambda line: print(line, file=sys.stderr))  # noqa: T201
    server = Server(home=home, binaries=binaries, account=account)
    server.create_cluster()
    with (home.data / "postgresql.conf").open("a", encoding="utf-8") as file:
        # The server writes its log to our standard error: only what ends it belongs there.
        file.write(f"log_min_messages = fatal\n{configuration}")
    sockets = home.claim_socket_directory(owner=account.uid)
    account.take_over(sockets)
    running = DebianServer(server, sockets)
    running.start()
    try:
        yield running
    finally:
        running.stop()
        home.remove_socket_directory(sockets)


@contextlib.contextmanager
def debian_standby(primary: DebianServer, directory: Path) -> Iterator[DebianServer]:
    """Copy a running server into a standby that has what the server has now; started, it takes the server's address."""
    programs = newest_debian()
    assert programs is not None
    home = Home(directory)
    home.directory.mkdir(parents=True)
    home.log.touch()
    facts = conninfo_to_dict(primary.address)
    copy = [programs / "pg_basebackup", "-h", facts["host"], "-U", facts["user"], "-D", home.data, "-c", "fast"]
    subprocess.run(copy, check=True, timeout=60)
    (home.data / "standby.signal").touch()
    server = Server(home=home, binaries=Binaries(programs), account=primary.server.account)
    server.take_over_cluster()
    standby = DebianServer(server, primary.sockets)
    try:
        yield standby
    finally:
        standby.stop()


def newest_debian(*, module: str | None = None) -> Path | None:
    """Where Debian's newest PostgreSQL (of those with a contributed module) has its programs; None without one."""
    found = [
        path.parent
        for path in _DEBIAN.glob("*/bin/initdb")
        if module is None or (path.parents[1] / "lib" / f"{module}.so").exists()
    ]
    return max(found, key=lambda path: int(path.parent.name), default=None)
