"""The topics of all applications that an open page can follow."""

from collections.abc import Callable
from typing import Final, NamedTuple

from crawlctl.languages import CODES, ENGLISH
from jobs.bulk import screens as of_operations
from jobs.exports import screens as of_exports
from jobs.ui import tasks_topics as of_tasks
from jobs.ui import topics as of_the_crawl
from jobs.verification import screens as of_verifications
from jobs.verification.archives import screens as of_archives
from nodes.distributed.pages import topics as of_distributed_jobs
from nodes.web.screens import Record
from nodes.web.topics import TopicUnknown

# For each application: a function that tests whether a topic is its own, and one that reads the topic's screen.
_APPLICATIONS: Final[tuple[tuple[Callable[[str], bool], Callable[[str], Record]], ...]] = (
    (of_the_crawl.is_topic, of_the_crawl.read_screen),
    (of_distributed_jobs.is_topic, of_distributed_jobs.read_screen),
    (of_tasks.is_topic, of_tasks.read_screen),
    (of_exports.is_topic, of_exports.read_screen),
    (of_operations.is_topic, of_operations.read_screen),
    (of_verifications.is_topic, of_verifications.read_screen),
    (of_archives.is_topic, of_archives.read_screen),
)


class View(NamedTuple):
    """A topic as an open page shows it."""

    topic: str
    language: str = ENGLISH

    @property
    def is_known(self) -> bool:
        """True if a page could follow this view, whether or not its object exists."""
        return is_topic(self.topic) and self.language in CODES


def is_topic(name: str) -> bool:
    """True if a page could follow a topic of this name, whether or not its object exists."""
    return any(is_known(name) for is_known, _read in _APPLICATIONS)


def read_screen(name: str) -> Record:
    """
    Return the present screen of this topic, in the active language.

    Raises:
        TopicUnknown: the topic is unknown, or its object no longer exists.
    """
    for is_known, read in _APPLICATIONS:
        if is_known(name):
            return read(name)
    raise TopicUnknown(name)
