"""The processes that crawlctl consists of, as services of a supervisor."""

import socket
import sys
from pathlib import Path

from django.conf import settings

from crawlctl.supervisor import Service


def manager(number: int, *, log: Path | None = None) -> Service:
    return _daemon(f"manager-{number}", "runmanager", "--name", f"manager-{number}", log=log)


def worker(number: int, *, log: Path | None = None) -> Service:
    return _daemon(f"worker-{number}", "runworker", "--name", f"worker-{number}", log=log)


def web_server(listener: socket.socket, *, host: str = "127.0.0.1", log: Path | None = None) -> Service:
    """The web server behind a socket that listens already, and goes on to if the server dies; `host` is its name."""
    inherited = listener.fileno()
    return _daemon("web-server", "serve", "--fd", str(inherited), "--host", host, log=log, keeps=(inherited,))


def _daemon(name: str, *arguments: str, log: Path | None, keeps: tuple[int, ...] = ()) -> Service:
    directory = Path(settings.BASE_DIR)
    command = (sys.executable, str(directory / "manage.py"), *arguments, "--attached")
    return Service(name=name, command=command, directory=directory, log=log, keeps=keeps)
