"""Debian's PgBouncer in front of a test's server."""

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
_CONFIGURATION = """
[databases]
* = host={sockets} port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listens}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = 60
logfile = {log}
"""


@contextlib.contextmanager
def pgbouncer(server: DebianServer, directory: Path, *, mode: str) -> Iterator[str]:
    """Run PgBouncer with this `pool_mode`. Yield the address of the server's database through it."""
    directory.mkdir(parents=True)
    account = server.server.account
    facts = conninfo_to_dict(server.address)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listens = free.getsockname()[1]
    configuration = directory / "pgbouncer.ini"
    configuration.write_text(
        _CONFIGURATION.format(
            sockets=facts["host"],
            port=facts.get("port", 5432),
            user=facts["user"],
            listens=listens,
            mode=mode,
            log=directory / "pgbouncer.log",
        )
    )
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
