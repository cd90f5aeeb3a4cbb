"""The topics of the crawl that an open page can follow, and the readers of their screens."""

import datetime as dt
import re
from typing import Final

from jobs.attention.all_partitions import read_attention_for_open_page
from jobs.queries.cluster.all_partitions import read_clusters_for_open_page
from jobs.queries.cluster.nodes import read_nodes_for_open_page
from jobs.queries.hosts.all_partitions import list_busiest_for_open_page
from jobs.queries.hosts.page import read_host_page
from jobs.queries.jobs.page import read_job_page
from jobs.queries.overview import read_overview
from jobs.queries.progress import DEFAULT_SPAN, SPANS
from jobs.ui.clusters_screen import clusters_screen
from jobs.ui.hosts_screen import host_screen, hosts_screen
from jobs.ui.job_screen import job_screen
from jobs.ui.nodes_screen import nodes_screen
from jobs.ui.overview_screen import overview_screen
from nodes.database.clock import read_clock
from nodes.web.screens import Record
from nodes.web.topics import TopicUnknown

_ONE = re.compile(r"(job|host)-([1-9][0-9]{0,17})")


def overview_topic(span: str) -> str:
    return "overview" if span == DEFAULT_SPAN else f"overview-{span}"


# The topics of the overview, one for each span of its charts.
_OVERVIEWS: Final = {overview_topic(span): span for span in SPANS}


def job_topic(job_id: int) -> str:
    return f"job-{job_id}"


def host_topic(host_id: int) -> str:
    return f"host-{host_id}"


def is_topic(name: str) -> bool:
    """True if a page can follow a topic with this name. The object of the topic need not exist."""
    return name in {*_OVERVIEWS, "nodes", "cluster", "hosts"} or _ONE.fullmatch(name) is not None


def read_screen(name: str) -> Record:
    """
    Return the present screen of this topic.

    Raises:
        TopicUnknown: the topic is unknown, or its job or host no longer exists.
    """
    at = read_clock()
    if name in _OVERVIEWS:
        page = read_overview(now=at, span=_OVERVIEWS[name])
        return overview_screen(page, read_attention_for_open_page(now=at), now=at)
    if name == "nodes":
        return nodes_screen(read_nodes_for_open_page(), now=at)
    if name == "cluster":
        return clusters_screen(read_clusters_for_open_page(now=at))
    if name == "hosts":
        return hosts_screen(list_busiest_for_open_page(now=at).lines, now=at)
    match = _ONE.fullmatch(name)
    screen = _read_one(match[1], int(match[2]), now=at) if match else None
    if screen is None:
        raise TopicUnknown(name)
    return screen


def _read_one(kind: str, number: int, *, now: dt.datetime) -> Record | None:
    """Return the screen of one job or host; None if it does not exist (any more)."""
    if kind == "job":
        job = read_job_page(number, now=now)
        return job_screen(job, now=now) if job else None
    host = read_host_page(number, now=now)
    return host_screen(host, now=now) if host else None
