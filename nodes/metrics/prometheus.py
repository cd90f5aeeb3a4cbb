"""The Prometheus export of metrics: as text, and served at a port of the process that counts them."""

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client import Metric as PrometheusMetric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from nodes.metrics.kinds import Counter, Gauge, Histogram, Metric

_LAST_PORT: Final = 65_535


class CannotServe(Exception):
    """The process cannot listen at this address."""


class MetricsCollector(Collector):
    """
    A collector of these metrics, for a registry of the Prometheus library, including that of an embedding application.
    """

    def __init__(
        self,
        metrics: Iterable[Metric],
        *,
        more: Callable[[], Iterable[Metric]] = tuple,
        refresh: Callable[[], None] = lambda: None,
    ) -> None:
        """
        At each scrape, `refresh` is called first, and then `more`, which returns metrics that exist only once something
        was counted.
        """
        self._metrics, self._more, self._refresh = tuple(metrics), more, refresh

    def collect(self) -> Iterator[PrometheusMetric]:
        self._refresh()
        for metric in (*self._metrics, *self._more()):
            yield _family(metric)


def registry_of(
    metrics: Iterable[Metric],
    *,
    more: Callable[[], Iterable[Metric]] = tuple,
    refresh: Callable[[], None] = lambda: None,
) -> CollectorRegistry:
    """
    Return a registry of these metrics and those of the process: memory, CPU, files.

    `more` and `refresh` are those of `MetricsCollector`.
    """
    registry = CollectorRegistry()
    registry.register(MetricsCollector(metrics, more=more, refresh=refresh))
    ProcessCollector(registry=registry)
    return registry


def render(registry: CollectorRegistry, *, accept: str = "") -> tuple[bytes, str]:
    """Return the metrics as text in the format that the reader accepts, and its content type."""
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


@contextmanager
def served(registry: CollectorRegistry, *, address: str, port: int) -> Iterator[None]:
    """
    Serve the metrics at this port while the block runs, in a thread. After an exception nothing listens there.

    Raises:
        CannotServe: the port is taken or invalid, or the address is not of this machine.
    """
    check_address(address, port)
    try:
        server, thread = start_http_server(port, addr=address, registry=registry)
    except OSError as error:
        raise _refused(address, port, error) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def check_address(address: str, port: int) -> None:
    """
    Check that the process can listen at this address now.

    Raises:
        CannotServe: the port is taken or invalid, or the address is not of this machine.
    """
    if not 1 <= port <= _LAST_PORT:
        raise CannotServe(f"{port} is not a port: write a number from 1 to {_LAST_PORT}, or 0 for no metrics.")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.create_server((address, port), family=family).close()
    except OSError as error:
        raise _refused(address, port, error) from error


def _refused(address: str, port: int, error: OSError) -> CannotServe:
    # For an unknown host name, the error number is from another list, so Python's text is used. For all other errors,
    # the text of the number is shorter than Python's.
    number = error.errno or 0
    why = os.strerror(number) if number > 0 else error.strerror
    return CannotServe(f"metrics cannot be served at {address}, port {port}: {why}.")


def _as_text(bound: float) -> str:
    return "+Inf" if bound == float("inf") else repr(bound)


def _family(metric: Metric) -> PrometheusMetric:
    match metric:
        case Counter():
            counter = CounterMetricFamily(metric.name, metric.meaning, labels=metric.labels)
            for values, amount in metric.read().items():
                counter.add_metric(values, amount)
            return counter
        case Gauge():
            gauge = GaugeMetricFamily(metric.name, metric.meaning, labels=metric.labels)
            for values, amount in metric.read().items():
                gauge.add_metric(values, amount)
            return gauge
        case Histogram():
            histogram = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
            for values, distribution in metric.read().items():
                buckets = [(_as_text(bound), count) for bound, count in distribution.at_most]
                histogram.add_metric(values, buckets, sum_value=distribution.total)
            return histogram
