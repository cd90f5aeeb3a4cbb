"""The processes that crawlctl consists of, as services of a supervisor."""

import socket
import sys
from pathlib import Path

from django.conf import settings

from crawlctl.supervisor import Service
from nodes.lifecycle import CLUSTER_SCOPE


def manager(number: int, *, scope: str = CLUSTER_SCOPE, log: Path | None = None) -> Service:
    return _node("manager", number, scope=scope, log=log)


def worker(number: int, *, scope: str = CLUSTER_SCOPE, log: Path | None = None) -> Service:
    return _node("worker", number, scope=scope, log=log)


def web_server(listener: socket.socket, *, host: str = "127.0.0.1", log: Path | None = None) -> Service:
    """The web server behind a socket that listens already, and goes on to if the server dies; `host` is its name."""
    inherited = listener.fileno()
    return _daemon("web-server", "serve", "--fd", str(inherited), "--host", host, log=log, keeps=(inherited,))


def _node(kind: str, number: int, *, scope: str, log: Path | None) -> Service:
    name = f"{kind}-{number}"
    return _daemon(name, f"run{kind}", "--name", name, "--scope", scope, log=log)


def _daemon(name: str, *arguments: str, log: Path | None, keeps: tuple[int, ...] = ()) -> Service:
    directory = Path(settings.BASE_DIR)
    command = (sys.executable, str(directory / "manage.py"), *arguments, "--attached")
    return Service(name=name, command=command, directory=directory, log=log, keeps=keeps)
