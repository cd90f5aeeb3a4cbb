"""The options by which a process is told where to show its metrics, and the showing of them."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from django.core.management.base import CommandError

from jobs.metrics import table
from jobs.settings.running import current
from jobs.settings.table import METRICS_ADDRESS, METRICS_PORT
from nodes.metrics.figures import Process
from nodes.metrics.prometheus import CannotServe, look_at, registry_of, served

# What a process that shows none is told, whatever the environment says: it is of the one that started it.
NO_METRICS: Final = ("--metrics-port", "0")


def add_metrics_options(parser: argparse.ArgumentParser, *, of: str = "this process") -> None:
    """Offer `--metrics-port` and `--metrics-address`; `of` says whose metrics are shown there."""
    parser.add_argument(
        "--metrics-port",
        type=int,
        default=current()[METRICS_PORT],
        metavar="PORT",
        help=f"port for Prometheus metrics of {of}; 0 serves none (CRAWLCTL_METRICS_PORT, default: %(default)s)",
    )
    parser.add_argument(
        "--metrics-address",
        default=current()[METRICS_ADDRESS],
        metavar="ADDRESS",
        help="listen address for metrics (CRAWLCTL_METRICS_ADDRESS, default: %(default)s)",
    )


def options_of_others(first: int, *, address: str, number: int) -> tuple[tuple[str, ...], ...]:
    """
    What so many processes that this one starts are told: to show their metrics at `first` and the ports after it.

    Raises:
        CommandError: one of them is taken, or cannot be.
    """
    if not first:
        return (NO_METRICS,) * number
    ports = range(first, first + number)
    try:
        for port in ports:
            look_at(address, port)
    except CannotServe as error:
        raise CommandError(f"--metrics-port: {error}", returncode=2) from error
    return tuple(("--metrics-port", str(port), "--metrics-address", address) for port in ports)


@contextmanager
def metrics_shown(
    process: Process, *, address: str, port: int, refresh: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """
    Show what this process counts while the block runs; nothing if `port` is 0.

    Raises:
        CommandError: nobody can listen there.
    """
    if not port:
        yield
        return
    registry = registry_of(table.shown_by(process), refresh=refresh)
    try:
        with served(registry, address=address, port=port):
            yield
    except CannotServe as error:
        raise CommandError(f"--metrics-port: {error}", returncode=2) from error
