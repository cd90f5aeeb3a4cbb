"""The topics that an open page can follow, and the readers of their screens."""

import datetime as dt
import re

from jobs.attention.sources import read_attention
from jobs.queries.cluster.nodes import read_nodes_page
from jobs.queries.cluster.page import read_cluster_page
from jobs.queries.distributed_jobs import read_distributed_job, read_distributed_jobs
from jobs.queries.hosts.lines import read_bin_lines
from jobs.queries.hosts.page import read_bin_page
from jobs.queries.hosts.selection import find_busiest
from jobs.queries.jobs.page import read_job_page
from jobs.queries.overview import read_overview
from jobs.ui.cluster_screen import cluster_screen
from jobs.ui.distributed_screen import distributed_job_screen, distributed_screen
from jobs.ui.hosts_screen import host_screen, hosts_screen
from jobs.ui.screens import job_screen, nodes_screen, overview_screen
from nodes.coordination.names import BadName
from nodes.database.address import database_dsn
from nodes.database.clock import read_clock
from nodes.web.screens import Record

_ONE = re.compile(r"(job|host)-([1-9][0-9]{0,17})")
_NAME = "([a-zA-Z0-9._-]{1,120})"
_SHARED = re.compile(f"distributed-{_NAME}(?:/{_NAME})?")


class TopicUnknown(Exception):
    """Nothing (or nothing any more) is shown under this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"There is nothing to follow under {name!r}.")


def job_topic(job_id: int) -> str:
    return f"job-{job_id}"


def host_topic(bin_id: int) -> str:
    return f"host-{bin_id}"


def distributed_topic(cluster: str, job: str = "") -> str:
    """Return the topic of a cluster's distributed jobs, or of one of them."""
    return f"distributed-{cluster}/{job}" if job else f"distributed-{cluster}"


def is_topic(name: str) -> bool:
    """True if a page could follow a topic of this name, whether or not its object exists."""
    return name in {"overview", "nodes", "cluster", "hosts"} or any(kind.fullmatch(name) for kind in (_ONE, _SHARED))


def read_screen(name: str) -> Record:
    """
    Return the present screen of this topic.

    Raises:
        TopicUnknown: the topic is unknown, or its job or host no longer exists.
    """
    at = read_clock()
    if name == "overview":
        return overview_screen(read_overview(now=at), read_attention(now=at), now=at)
    if name == "nodes":
        return nodes_screen(read_nodes_page(), now=at)
    if name == "cluster":
        return cluster_screen(read_cluster_page(now=at), now=at)
    if name == "hosts":
        return hosts_screen(read_bin_lines(find_busiest(), now=at), now=at)
    if shared := _SHARED.fullmatch(name):
        screen = _read_distributed(shared[1], shared[2], now=at)
    else:
        match = _ONE.fullmatch(name)
        screen = _read_one(match[1], int(match[2]), now=at) if match else None
    if screen is None:
        raise TopicUnknown(name)
    return screen


def _read_distributed(cluster: str, job: str | None, *, now: dt.datetime) -> Record | None:
    """Return the screen of a cluster's distributed jobs, or of one; None if the job or cluster does not exist."""
    try:
        if job is None:
            return distributed_screen(read_distributed_jobs(cluster, dsn=database_dsn()), now=now)
        page = read_distributed_job(cluster, job, dsn=database_dsn())
    except BadName:
        return None
    return distributed_job_screen(page, now=now) if page else None


def _read_one(kind: str, number: int, *, now: dt.datetime) -> Record | None:
    """Return the screen of one job or host; None if it does not exist (any more)."""
    if kind == "job":
        job = read_job_page(number, now=now)
        return job_screen(job, now=now) if job else None
    host = read_bin_page(number, now=now)
    return host_screen(host, now=now) if host else None
