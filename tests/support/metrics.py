"""Reads the metrics of processes as Prometheus does."""

import socket
import urllib.request
from contextlib import ExitStack

from prometheus_client.parser import text_string_to_metric_families

from tests.support.processes import wait_for


def free_port(*, others=0):
    """Return a loopback port that was free a moment ago. The next `others` ports were free as well."""
    while True:
        with ExitStack() as closes:
            first = closes.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
            try:
                for port in range(first + 1, first + 1 + others):
                    closes.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first


def parse(text):
    """Return the values by (name, label values in the order of the labels' names)."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def scrape(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return parse(answer.read().decode())


def scrape_when_up(port):
    def scrape_or_none():
        try:
            return scrape(port)
        except OSError:
            return None

    return wait_for(scrape_or_none, saying="the process shows its metrics")
