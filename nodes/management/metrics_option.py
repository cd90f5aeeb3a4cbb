"""The options for the address of a process's metrics, and their export there."""

import argparse
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from django.core.management.base import CommandError

from nodes.metrics.kinds import Metric
from nodes.metrics.prometheus import CannotServe, check_address, registry_of, served
from nodes.settings.node_settings import METRICS_ADDRESS, METRICS_PORT
from nodes.settings.running import current

# Options of a process without exported metrics. They override the environment of the process that started it.
NO_METRICS: Final = ("--metrics-port", "0")


def add_metrics_options(parser: argparse.ArgumentParser, *, of: str = "this process") -> None:
    """Offer `--metrics-port` and `--metrics-address`; `of` names the process for the help text."""
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
    Return the options of `number` processes that this one starts: they export their metrics at `first` and the next ports.

    Raises:
        CommandError: one of the ports is taken or invalid.
    """
    if not first:
        return (NO_METRICS,) * number
    ports = range(first, first + number)
    try:
        for port in ports:
            check_address(address, port)
    except CannotServe as error:
        raise CommandError(f"--metrics-port: {error}", returncode=2) from error
    return tuple(("--metrics-port", str(port), "--metrics-address", address) for port in ports)


@contextmanager
def metrics_shown(
    metrics: Iterable[Metric],
    *,
    address: str,
    port: int,
    more: Callable[[], Iterable[Metric]] = tuple,
    refresh: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """
    Export these metrics while the block runs; nothing if `port` is 0.

    `more` returns metrics that exist only once something was counted. `refresh` is called before each scrape.

    Raises:
        CommandError: the process cannot listen there.
    """
    if not port:
        yield
        return
    registry = registry_of(metrics, more=more, refresh=refresh)
    try:
        with served(registry, address=address, port=port):
            yield
    except CannotServe as error:
        raise CommandError(f"--metrics-port: {error}", returncode=2) from error
