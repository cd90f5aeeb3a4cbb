"""The topics of distributed jobs that an open page can follow, and the readers of their screens."""

import re

from nodes.coordination.names import BadName
from nodes.database.address import database_dsn
from nodes.database.clock import read_clock
from nodes.distributed.pages.screens import distributed_job_screen, distributed_screen
from nodes.distributed.queries import read_distributed_job, read_distributed_jobs
from nodes.web.screens import Record
from nodes.web.topics import TopicUnknown

_NAME = "([a-zA-Z0-9._-]{1,120})"
_TOPIC = re.compile(f"distributed-{_NAME}(?:/{_NAME})?")


def distributed_topic(cluster: str, job: str = "") -> str:
    """Return the topic of a cluster's distributed jobs, or of one of them."""
    return f"distributed-{cluster}/{job}" if job else f"distributed-{cluster}"


def is_topic(name: str) -> bool:
    """True if a page could follow a topic of this name, whether or not its cluster or job exists."""
    return _TOPIC.fullmatch(name) is not None


def read_screen(name: str) -> Record:
    """
    Return the present screen of this topic.

    Raises:
        TopicUnknown: the topic is unknown, or its cluster or job does not exist.
    """
    topic = _TOPIC.fullmatch(name)
    if topic is None:
        raise TopicUnknown(name)
    cluster, job = topic.groups()
    now, dsn = read_clock(), database_dsn()
    try:
        if job is None:
            return distributed_screen(read_distributed_jobs(cluster, dsn=dsn), now=now)
        page = read_distributed_job(cluster, job, dsn=dsn)
    except BadName as error:
        raise TopicUnknown(name) from error
    if page is None:
        raise TopicUnknown(name)
    return distributed_job_screen(page, now=now)
