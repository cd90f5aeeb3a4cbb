"""
Databases for one measured run each. They start before the measurement, so their start is not part of it.

The embedded database is the one that users get. The number of statements comes from Debian's PostgreSQL, since only
that has pg_stat_statements.
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

from crawlctl.postgres import lifetime
from tests.support.debian import debian_server, newest_debian

ROOT = Path(__file__).resolve().parents[2]

_HOLD = """
import sys
from pathlib import Path
from crawlctl.postgres.lifetime import ensure_running
print(ensure_running(Path(sys.argv[1]), announce=lambda line: print(line, file=sys.stderr)), flush=True)
sys.stdin.read()
"""
# Seconds.
_STOPPED_WITHIN = 30.0
_MODULE = "pg_stat_statements"


@dataclass(frozen=True)
class Database:
    """A database for a command: its environment, its address, and the parent process of all server processes."""

    environment: dict[str, str]
    address: str
    server: psutil.Process


@contextlib.contextmanager
def embedded(var: Path) -> Iterator[Database]:
    """Run the embedded database of a `var` directory, with its tables."""
    environment = {**os.environ, "CRAWLCTL_VAR": str(var)}
    environment.pop("DATABASE_URL", None)
    directory = var / "postgres"
    # The holder has a separate session, so that an interrupt of the benchmark ends the run first, and then the
    # database.
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(directory)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with holder:
        assert holder.stdout is not None
        address = holder.stdout.readline().decode().strip()
        if not address:
            raise RuntimeError(f"the embedded database below {var} did not start")
        make_tables(environment)
        guardian = _guardian_of(directory)
        try:
            yield Database(environment=environment, address=address, server=guardian)
        finally:
            # End both users of the database: this process, which may be a user, and the holder, which ends when its
            # input ends. Then wait for the guardian, which stops the server: until it ends, files in the directory come
            # and go.
            lifetime.let_go()
            assert holder.stdin is not None
            holder.stdin.close()
            guardian.wait(_STOPPED_WITHIN)


@contextlib.contextmanager
def with_statistics(var: Path, *, connections: int = 100) -> Iterator[Database]:
    """Run a cluster of Debian's PostgreSQL that counts its statements, with our tables and room for connections."""
    configuration = f"shared_preload_libraries = '{_MODULE}'\n"
    options = {"max_connections": str(connections)}
    with debian_server(var / "debian", configuration=configuration, options=options) as server:
        environment = {**os.environ, "CRAWLCTL_VAR": str(var), "DATABASE_URL": server.address}
        make_tables(environment)
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute(f"CREATE EXTENSION {_MODULE}")
        yield Database(environment=environment, address=server.address, server=psutil.Process(server.pid))


@contextlib.contextmanager
def in_memory(var: Path) -> Iterator[Database]:
    """Run a cluster of Debian's PostgreSQL that holds all tables in memory and does not wait for the disk."""
    configuration = "shared_buffers = 6GB\nfsync = off\nmaintenance_work_mem = 1GB\nmax_wal_size = 16GB\n"
    with debian_server(var / "debian", configuration=configuration) as server:
        environment = {**os.environ, "CRAWLCTL_VAR": str(var), "DATABASE_URL": server.address}
        make_tables(environment)
        yield Database(environment=environment, server=psutil.Process(server.pid), address=server.address)


def has_statistics() -> bool:
    """True if this machine has a PostgreSQL that can count its statements."""
    return newest_debian(module=_MODULE) is not None


def forget_statements(address: str) -> None:
    """Reset the counts."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_statements_reset()")


def read_statements(address: str) -> list[tuple[int, float, str]]:
    """Return each statement since the reset as (calls, total ms, text), the most frequent first."""
    with psycopg.connect(address, autocommit=True) as connection:
        return connection.execute(
            """
            SELECT calls, total_exec_time, query FROM pg_stat_statements
             WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND query NOT LIKE '%pg_stat_statements%'
               -- The server checks deferred constraints at the commit: these statements were not sent by a client.
               AND query NOT LIKE '%FROM ONLY "public".%' AND query NOT LIKE '%NEW.%'
             ORDER BY calls DESC
            """
        ).fetchall()


def make_tables(environment: dict[str, str]) -> None:
    """Make the tables of the database in this environment."""
    subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=ROOT, env=environment, check=True)


def _guardian_of(directory: Path) -> psutil.Process:
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "crawlctl.postgres.guardian" in words and str(directory) in words:
            return process
    raise RuntimeError(f"the guardian of {directory} is not there")
