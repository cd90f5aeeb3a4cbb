"""
Databases for one measured run each, prepared and held, so that starting them is not part of what is measured.

The embedded one is what users get. Debian's is asked for the number of statements, since it brings
pg_stat_statements and the embedded one does not.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg

from crawlctl.postgres.account import choose_account
from crawlctl.postgres.binaries import Binaries
from crawlctl.postgres.home import Home, address_of
from crawlctl.postgres.server import Server

ROOT = Path(__file__).resolve().parents[2]

_HOLD = """
import sys
from pathlib import Path
from crawlctl.postgres.lifetime import ensure_running
ensure_running(Path(sys.argv[1]), announce=lambda line: print(line, file=sys.stderr))
print("ready", flush=True)
sys.stdin.read()
"""
_DEBIAN = Path("/usr/lib/postgresql")
_MODULE = "pg_stat_statements"


@dataclass(frozen=True)
class Database:
    """What a command is told of a database, and the process below which all of the server's are."""

    environment: dict[str, str]
    server: psutil.Process


@contextlib.contextmanager
def embedded(var: Path) -> Iterator[Database]:
    """The embedded database of a `var` directory, with its tables."""
    environment = {**os.environ, "CRAWLCTL_VAR": str(var)}
    environment.pop("DATABASE_URL", None)
    directory = var / "postgres"
    # In a session of its own: who interrupts the benchmark ends the run first, and its database after it.
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(directory)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with holder:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"ready\n":
            raise RuntimeError(f"the embedded database below {var} did not start")
        _make_tables(environment)
        yield Database(environment=environment, server=_guardian_of(directory))
        # The end of its input ends the holder, which waits until the server has stopped.


@contextlib.contextmanager
def with_statistics(var: Path) -> Iterator[tuple[Database, str]]:
    """A cluster of Debian's PostgreSQL that counts its statements, with our tables; also its address."""
    directory = newest_debian()
    assert directory is not None
    home = Home(var / "debian")
    home.directory.mkdir(parents=True)
    home.log.touch()
    binaries = Binaries(directory)
    account = choose_account(home=home, binaries=binaries, announce=lambda line: print(line, file=sys.stderr))  # noqa: T201
    server = Server(home=home, binaries=binaries, account=account)
    server.create_cluster()
    with (home.data / "postgresql.conf").open("a", encoding="utf-8") as configuration:
        # The server writes its log to our standard error: only what ends it belongs there.
        configuration.write(f"shared_preload_libraries = '{_MODULE}'\nlog_min_messages = fatal\n")
    sockets = home.claim_socket_directory(owner=account.uid)
    account.take_over(sockets)
    postmaster = server.start(socket_directory=sockets)
    try:
        address = address_of(sockets)
        environment = {**os.environ, "CRAWLCTL_VAR": str(var), "DATABASE_URL": address}
        _make_tables(environment)
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"CREATE EXTENSION {_MODULE}")
        yield Database(environment=environment, server=psutil.Process(postmaster.process.pid)), address
    finally:
        postmaster.stop()
        home.remove_socket_directory(sockets)


def newest_debian() -> Path | None:
    """Where Debian's newest PostgreSQL with its contributed modules has its programs; None without one."""
    found = [
        path.parent for path in _DEBIAN.glob("*/bin/initdb") if (path.parents[1] / "lib" / f"{_MODULE}.so").exists()
    ]
    return max(found, key=lambda path: int(path.parent.name), default=None)


def forget_statements(address: str) -> None:
    """Count from here."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_statements_reset()")


def read_statements(address: str) -> list[tuple[int, float, str]]:
    """Every statement since: how often it was executed, for how many ms in all, and its text; the most frequent first."""
    with psycopg.connect(address, autocommit=True) as connection:
        return connection.execute(
            """
            SELECT calls, total_exec_time, query FROM pg_stat_statements
             WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND query NOT LIKE '%pg_stat_statements%'
             ORDER BY calls DESC
            """
        ).fetchall()


def _make_tables(environment: dict[str, str]) -> None:
    subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=ROOT, env=environment, check=True)


def _guardian_of(directory: Path) -> psutil.Process:
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "crawlctl.postgres.guardian" in words and str(directory) in words:
            return process
    raise RuntimeError(f"the guardian of {directory} is not there")
