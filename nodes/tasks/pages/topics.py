"""
The topics of background tasks that an open page can follow.

The topic of a list contains the filters of the list, as in the address of its page. Lists cover all databases, so a
layer above this package reads their screens.
"""

import re
from typing import Final

from nodes.database.clock import read_clock
from nodes.tasks.pages.screens import task_screen
from nodes.tasks.queries import read_task
from nodes.web.screens import Record
from nodes.web.topics import TopicUnknown

_TOPIC: Final = re.compile(
    r"(tasks|tasks-scheduled|tasks-archived|tasks-templates|tasks-workers)(?:\?([\w.%=&+-]{0,500}))?"
)
_ONE: Final = re.compile(r"task-([1-9][0-9]{0,17})")


def tasks_topic(page: str, query: str = "") -> str:
    """Return the topic of a page with these filters."""
    return f"{page}?{query}" if query else page


def task_topic(number: int) -> str:
    """Return the topic of the page of one task."""
    return f"task-{number}"


def is_topic(name: str) -> bool:
    """True if a page could follow a topic of this name, whether or not its task exists."""
    return (_TOPIC.fullmatch(name) or _ONE.fullmatch(name)) is not None


def parts_of_list(name: str) -> tuple[str, str] | None:
    """Return the page of a topic and its query; None if it is not the topic of a list."""
    topic = _TOPIC.fullmatch(name)
    return None if topic is None else (topic[1], topic[2] or "")


def read_screen(name: str) -> Record:
    """
    Return the present screen of one task.

    Raises:
        TopicUnknown: this is not the topic of a task, or there is no such task.
    """
    one = _ONE.fullmatch(name)
    seen = read_task(int(one[1])) if one else None
    if seen is None:
        raise TopicUnknown(name)
    return task_screen(seen, now=read_clock())
