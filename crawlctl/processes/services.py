"""The processes of crawlctl, as services of a supervisor."""

import socket
from pathlib import Path

from django.conf import settings

from crawlctl.processes.supervisor import Service
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.management.metrics_option import NO_METRICS


def manager(
    number: int, *, scope: str = CLUSTER_SCOPE, log: Path | None = None, metrics: tuple[str, ...] = NO_METRICS
) -> Service:
    return _node("manager", number, scope=scope, log=log, metrics=metrics)


def worker(
    number: int, *, scope: str = CLUSTER_SCOPE, log: Path | None = None, metrics: tuple[str, ...] = NO_METRICS
) -> Service:
    return _node("worker", number, scope=scope, log=log, metrics=metrics)


def task_worker(number: int, *, log: Path | None = None) -> Service:
    name = f"task-worker-{number}"
    return _daemon(name, "runtasks", "--name", name, log=log, metrics=())


def web_server(
    listener: socket.socket, *, host: str = "127.0.0.1", log: Path | None = None, metrics: tuple[str, ...] = NO_METRICS
) -> Service:
    """
    Return the service that runs the web server behind a listening socket. The socket stays open if the server dies.

    `host` is the name of the listening address.
    """
    inherited = listener.fileno()
    arguments = ("serve", "--fd", str(inherited), "--host", host)
    return _daemon("web-server", *arguments, log=log, keeps=(inherited,), metrics=metrics)


def _node(kind: str, number: int, *, scope: str, log: Path | None, metrics: tuple[str, ...]) -> Service:
    name = f"{kind}-{number}"
    return _daemon(name, f"run{kind}", "--name", name, "--scope", scope, log=log, metrics=metrics)


def _daemon(
    name: str, *arguments: str, log: Path | None, metrics: tuple[str, ...], keeps: tuple[int, ...] = ()
) -> Service:
    command = (*settings.CRAWLCTL_PROGRAM, *arguments, *metrics, "--attached")
    return Service(name=name, command=command, log=log, keeps=keeps)
