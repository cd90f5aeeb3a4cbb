"""A private cluster of Debian's PostgreSQL, which a test may configure and end."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from crawlctl.postgres.account import choose_account
from crawlctl.postgres.binaries import Binaries
from crawlctl.postgres.home import Home, address_of
from crawlctl.postgres.server import Postmaster, Server
from tests.support import once
from tests.support.processes import PATIENCE, Command, Database

_DEBIAN = Path("/usr/lib/postgresql")
# Seconds in which a server must end after a signal.
_ENDS_WITHIN = 20.0


class DebianServer:
    """The server. `address` stays the same over its restarts."""

    def __init__(self, server: Server, sockets: Path, *, options: Mapping[str, str] | None = None) -> None:
        """`options` are settings of this server. They replace the settings of the embedded server."""
        self.server, self.sockets, self._options = server, sockets, options
        self.address = address_of(sockets)
        self._postmaster: Postmaster | None = None

    def start(self) -> None:
        """Start the server, however it ended before."""
        self._postmaster = self.server.start(socket_directory=self.sockets, further=self._options)

    @property
    def pid(self) -> int:
        assert self._postmaster is not None
        return self._postmaster.process.pid

    @property
    def data(self) -> Path:
        """Return the directory of all its processes."""
        return self.server.home.data

    def end(self, number: signal.Signals) -> None:
        """End the server by a signal: SIGINT for an orderly stop, SIGQUIT for an immediate one, SIGKILL for a crash."""
        assert self._postmaster is not None
        process = self._postmaster.process
        process.send_signal(number)
        try:
            process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            # PostgreSQL 15 that gets SIGINT in the middle of a recovery may wait without end for its checkpointer,
            # which it does not signal. An operator would send SIGQUIT then, too.
            process.send_signal(signal.SIGQUIT)
            process.wait()

    def promote(self) -> None:
        """Promote a started standby to primary."""
        with psycopg.connect(self.address, dbname="postgres", autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")

    def stop(self) -> None:
        """End the server if it was started."""
        if self._postmaster is not None:
            self._postmaster.stop()


@contextlib.contextmanager
def debian_server(
    directory: Path,
    *,
    configuration: str = "",
    options: Mapping[str, str] | None = None,
    is_migrated: bool = False,
) -> Iterator[DebianServer]:
    """
    Run a new cluster below `directory`, with these lines in its configuration, and these options.

    It has our tables if `is_migrated`.
    """
    server = _server_in(directory)
    home, account = server.home, server.account
    if once.is_shared():
        name = "migrated-debian-cluster" if is_migrated else "debian-cluster"
        once.copy(once.made_once(name, _migrate if is_migrated else _create) / "server" / "data", home.data)
    else:
        assert not is_migrated
        server.create_cluster()
    with (home.data / "postgresql.conf").open("a", encoding="utf-8") as file:
        # The server logs to our standard error, so only fatal messages are allowed.
        file.write(f"log_min_messages = fatal\n{configuration}")
    sockets = home.claim_socket_directory(owner=account.uid)
    account.take_over(sockets)
    running = DebianServer(server, sockets, options=options)
    running.start()
    try:
        yield running
    finally:
        running.stop()
        home.remove_socket_directory(sockets)


def _create(directory: Path) -> None:
    """Create a cluster, which takes a second of the processor."""
    _server_in(directory / "server").create_cluster()


def _migrate(directory: Path) -> None:
    """Create a cluster with our tables, which takes five seconds of the processor."""
    with debian_server(directory / "server") as running:
        migrating = Command(Database(running.address), directory, "migrate", "--verbosity", "0")
        assert migrating.wait(5 * PATIENCE) == 0, migrating.err


def _server_in(directory: Path) -> Server:
    programs = newest_debian()
    assert programs is not None, "install Debian's package postgresql"
    home = Home(directory)
    home.directory.mkdir(parents=True)
    home.log.touch()
    binaries = Binaries(programs)
    account = choose_account(home=home, binaries=binaries, announce=lambda line: print(line, file=sys.stderr))  # noqa: T201
    return Server(home=home, binaries=binaries, account=account)


@contextlib.contextmanager
def debian_standby(primary: DebianServer, directory: Path) -> Iterator[DebianServer]:
    """Copy a running server into a standby. Once started, it uses the server's address."""
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
    """Return the directory of Debian's newest PostgreSQL programs (with a contributed module, if given), or None."""
    found = [
        path.parent
        for path in _DEBIAN.glob("*/bin/initdb")
        if module is None or (path.parents[1] / "lib" / f"{module}.so").exists()
    ]
    return max(found, key=lambda path: int(path.parent.name), default=None)
