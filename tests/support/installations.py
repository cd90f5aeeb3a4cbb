"""
Installations, each with its own embedded database. Its data is a copy of a migrated database, which is expensive to
make.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from crawlctl.postgres.account import choose_account
from crawlctl.postgres.binaries import find_binaries
from crawlctl.postgres.home import Home
from tests.support import once
from tests.support.processes import PATIENCE, ROOT, Command, wait_for

PASSPHRASE = {"CRAWLCTL_BACKUP_PASSPHRASE": "correct horse"}

_HOLD = """
import sys
from pathlib import Path
from crawlctl.postgres.lifetime import ensure_running
print(ensure_running(Path(sys.argv[1]), announce=lambda line: None, companion=sys.argv[2]), flush=True)
sys.stdin.read()
"""


@dataclass
class Installation:
    """An installation. `Command` also accepts it in place of a database."""

    directory: Path
    further: dict = field(default_factory=dict)

    @property
    def var(self):
        return self.directory / "var"

    @property
    def data(self):
        return self.var / "postgres" / "data"

    @property
    def environment(self):
        return {**os.environ, "DATABASE_URL": "", "CRAWLCTL_VAR": str(self.var), **self.further}

    def start(self, *words, **environment):
        return Command(self, self.directory, *map(str, words), **environment)

    def run(self, *words, code=0, **environment):
        """Run a command to its end, and return its output, or its error if `code` is not 0."""
        command = self.start(*words, **environment)
        assert command.wait() == code, command.out + command.err
        assert "Traceback" not in command.err, command.err
        assert PASSPHRASE["CRAWLCTL_BACKUP_PASSPHRASE"] not in command.out + command.err
        return command.err if code else command.out

    def backups(self, place):
        return [json.loads(line) for line in self.run("backup", "list", "--from", place, "--json").splitlines()]

    @contextlib.contextmanager
    def server(self, *, ships=False):
        """
        Let a process use the embedded server, and yield its address. If it `ships`, it copies the server's log to the
        store.
        """
        companion = "crawlctl.backups.log_copier" if ships else ""
        command = [sys.executable, "-c", _HOLD, str(self.var / "postgres"), companion]
        with subprocess.Popen(
            command, cwd=ROOT, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as user:
            yield user.stdout.readline().strip()
            user.stdin.close()

    def log_state(self):
        """Return the state of the copied log; {} before the first segment."""
        try:
            return json.loads((self.var / "wal" / "state.json").read_text())
        except FileNotFoundError:
            return {}


def copy_migrated(var):
    """Copy a migrated embedded database to this directory of data, which its processes use as their own."""
    once.copy(once.made_once("migrated-installation", _migrate) / "var", var)


def remove_cluster(var):
    """Wait until the server has ended, and remove its database. All users of the server must have ended before."""
    data = var / "postgres" / "data"
    _wait_until_stopped(data)
    shutil.rmtree(data)


def _wait_until_stopped(data):
    wait_for(lambda: not (data / "postmaster.pid").exists(), saying="the server has ended")


def _migrate(directory):
    installation = Installation(directory)
    migrating = installation.start("migrate")
    assert migrating.wait(5 * PATIENCE) == 0, migrating.err
    _shrink(installation)


def _shrink(installation):
    """
    Make the cluster small, because each backup copies, reads and compresses all of it: 16 MB instead of 53.

    The copy of the log closes a segment each second, so its segments are the smallest ones that PostgreSQL allows.
    """
    with installation.server() as address, psycopg.connect(address, autocommit=True) as connection:
        # The server does not sync its files: only a power cut would lose data.
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("UPDATE pg_database SET datistemplate = false")
        for name in ("template0", "template1", "postgres"):
            connection.execute(f"DROP DATABASE {name}")
        connection.execute("VACUUM (FULL, ANALYZE)")
    _wait_until_stopped(installation.data)
    binaries, home = find_binaries(), Home(installation.var / "postgres")
    account = choose_account(home=home, binaries=binaries, announce=lambda _line: None)
    reset = [*account.prefix, binaries.path_of("pg_resetwal"), "--wal-segsize=1", "-D", home.data]
    subprocess.run(reset, cwd="/", stdout=subprocess.DEVNULL, check=True)
