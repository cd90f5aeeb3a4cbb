"""What an open page can follow: a topic's name, and how its screen is read."""

import datetime as dt
import re

from jobs.queries.bin_lines import read_bin_lines
from jobs.queries.bin_page import read_bin_page
from jobs.queries.bins import find_busiest
from jobs.queries.clock import read_clock
from jobs.queries.cluster_page import read_cluster_page
from jobs.queries.job_page import read_job_page
from jobs.queries.nodes_page import read_nodes_page
from jobs.queries.overview import read_overview
from jobs.ui.bins_screen import host_screen, hosts_screen
from jobs.ui.cluster_screen import cluster_screen
from jobs.ui.screens import Record, job_screen, nodes_screen, overview_screen

_ONE = re.compile(r"(job|host)-([1-9][0-9]{0,17})")


class TopicUnknown(Exception):
    """Nothing (or nothing any more) is shown under this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"There is nothing to follow under {name!r}.")


def job_topic(job_id: int) -> str:
    return f"job-{job_id}"


def host_topic(bin_id: int) -> str:
    return f"host-{bin_id}"


def is_topic(name: str) -> bool:
    """Whether the name is one that a page could follow; says nothing about what is there."""
    return name in {"overview", "nodes", "cluster", "hosts"} or _ONE.fullmatch(name) is not None


def read_screen(name: str) -> Record:
    """
    Read what a page of this topic shows at this moment.

    Raises:
        TopicUnknown: there is no such topic, or its job or host is gone.
    """
    at = read_clock()
    if name == "overview":
        return overview_screen(read_overview(now=at), now=at)
    if name == "nodes":
        return nodes_screen(read_nodes_page(), now=at)
    if name == "cluster":
        return cluster_screen(read_cluster_page(now=at), now=at)
    if name == "hosts":
        return hosts_screen(read_bin_lines(find_busiest(), now=at), now=at)
    match = _ONE.fullmatch(name)
    screen = _read_one(match[1], int(match[2]), now=at) if match else None
    if screen is None:
        raise TopicUnknown(name)
    return screen


def _read_one(kind: str, number: int, *, now: dt.datetime) -> Record | None:
    """The screen of one job or host; None if it is not there (any more)."""
    if kind == "job":
        job = read_job_page(number, now=now)
        return job_screen(job, now=now) if job else None
    host = read_bin_page(number, now=now)
    return host_screen(host, now=now) if host else None
