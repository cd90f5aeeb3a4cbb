"""What an open page can follow: a topic's name, and how its screen is read."""

import re

from jobs.queries.clock import read_clock
from jobs.queries.cluster_page import read_cluster_page
from jobs.queries.job_page import read_job_page
from jobs.queries.nodes_page import read_nodes_page
from jobs.queries.overview import read_overview
from jobs.ui.cluster_screen import cluster_screen
from jobs.ui.screens import Record, job_screen, nodes_screen, overview_screen

_JOB = re.compile(r"job-([1-9][0-9]{0,17})")


class TopicUnknown(Exception):
    """Nothing (or nothing any more) is shown under this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"There is nothing to follow under {name!r}.")


def job_topic(job_id: int) -> str:
    return f"job-{job_id}"


def is_topic(name: str) -> bool:
    """Whether the name is one that a page could follow; says nothing about what is there."""
    return name in {"overview", "nodes", "cluster"} or _JOB.fullmatch(name) is not None


def read_screen(name: str) -> Record:
    """
    Read what a page of this topic shows at this moment.

    Raises:
        TopicUnknown: there is no such topic, or its job is gone.
    """
    at = read_clock()
    if name == "overview":
        return overview_screen(read_overview(now=at), now=at)
    if name == "nodes":
        return nodes_screen(read_nodes_page(), now=at)
    if name == "cluster":
        return cluster_screen(read_cluster_page(now=at), now=at)
    match = _JOB.fullmatch(name)
    page = read_job_page(int(match[1])) if match else None
    if page is None:
        raise TopicUnknown(name)
    return job_screen(page, now=at)
