"""Debian's PgBouncer in front of a test's server."""

import configparser
import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.debian import DebianServer

_PROGRAM = "/usr/sbin/pgbouncer"
_STARTS_WITHIN = 20.0
_CONFIGURATION = Path(__file__).resolve().parents[2] / "deploy" / "pgbouncer.ini"


@contextlib.contextmanager
def pgbouncer(
    server: DebianServer,
    directory: Path,
    *,
    mode: str | None = None,
    connect_query: str = "",
    sessions: int | None = None,
) -> Iterator[str]:
    """
    Run PgBouncer as `deploy/pgbouncer.ini` says, or with this `pool_mode`. Yield the address of the database through it.

    It executes `connect_query` in each new session, and has at most this number of `sessions`.
    """
    directory.mkdir(parents=True)
    account = server.server.account
    facts = conninfo_to_dict(server.address)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listens = free.getsockname()[1]
    read = configparser.ConfigParser(interpolation=None, delimiters="=")
    read.read(_CONFIGURATION)
    line = f"host={facts['host']} port={facts.get('port', 5432)} user={facts['user']}"
    read["databases"] = {"*": f"{line} connect_query='{connect_query}'" if connect_query else line}
    del read["pgbouncer"]["auth_file"]
    read["pgbouncer"].update(
        {
            "listen_port": str(listens),
            "unix_socket_dir": "",
            "auth_type": "any",
            **({} if sessions is None else {"default_pool_size": str(sessions)}),
            "pool_mode": mode or read["pgbouncer"]["pool_mode"],
            "logfile": str(directory / "pgbouncer.log"),
        }
    )
    configuration = directory / "pgbouncer.ini"
    with configuration.open("w") as file:
        read.write(file)
    account.take_over(directory)
    process = subprocess.Popen(
        [*account.prefix, _PROGRAM, "--quiet", configuration], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_until_it_listens(process, listens)
        yield make_conninfo(server.address, host="127.0.0.1", port=listens)
    finally:
        process.kill()
        process.wait()


def _wait_until_it_listens(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            assert process.poll() is None, "PgBouncer has ended: its log says why"
            assert time.monotonic() < deadline, "PgBouncer does not listen"
            time.sleep(0.05)
