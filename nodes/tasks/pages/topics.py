"""
The topics of background tasks that an open page can follow, and the readers of their screens.

A topic of a list has the filters of the list, as they stand in the address of its page.
"""

import re
from typing import Final

from django.http import QueryDict

from nodes.database.clock import read_clock
from nodes.errors import TooSlow
from nodes.tasks.pages.filters import ArchivedFilterForm, ScheduledFilterForm, TaskFilterForm
from nodes.tasks.pages.screens import (
    archived_screen,
    roster_screen,
    scheduled_screen,
    task_screen,
    tasks_screen,
    templates_screen,
)
from nodes.tasks.queries import list_archived, list_scheduled, read_roster, read_task, read_tasks, read_templates
from nodes.web.screens import Record
from nodes.web.topics import TopicUnknown

_TOPIC: Final = re.compile(
    r"(tasks|tasks-scheduled|tasks-archived|tasks-templates|tasks-workers)(?:\?([\w.%=&+-]{0,500}))?"
)
_ONE: Final = re.compile(r"task-([1-9][0-9]{0,17})")
_FORMS: Final = {
    "tasks": TaskFilterForm,
    "tasks-scheduled": ScheduledFilterForm,
    "tasks-archived": ArchivedFilterForm,
}


def tasks_topic(page: str, query: str = "") -> str:
    """Return the topic of a page with these filters."""
    return f"{page}?{query}" if query else page


def task_topic(number: int) -> str:
    """Return the topic of the page of one task."""
    return f"task-{number}"


def is_topic(name: str) -> bool:
    """True if a page could follow a topic of this name, whether or not its task exists."""
    return (_TOPIC.fullmatch(name) or _ONE.fullmatch(name)) is not None


def read_screen(name: str) -> Record:
    """
    Return the present screen of this topic.

    Raises:
        TopicUnknown: the topic or a filter is unknown, or its tasks cannot be read in time.
    """
    now = read_clock()
    if one := _ONE.fullmatch(name):
        seen = read_task(int(one[1]))
        if seen is None:
            raise TopicUnknown(name)
        return task_screen(seen, now=now)
    topic = _TOPIC.fullmatch(name)
    if topic is None:
        raise TopicUnknown(name)
    page, query = topic.groups()
    if page == "tasks-templates":
        return templates_screen(*read_templates(), now=now)
    if page == "tasks-workers":
        return roster_screen(*read_roster(), now=now)
    form = _FORMS[page](QueryDict(query or ""))
    if not form.is_valid():
        raise TopicUnknown(name)
    wanted = form.as_filter()
    try:
        if page == "tasks":
            return tasks_screen(read_tasks(group=wanted.group), now=now)
        if page == "tasks-scheduled":
            return scheduled_screen(list_scheduled(wanted), now=now)
        return archived_screen(list_archived(wanted), now=now)
    except TooSlow as slow:
        raise TopicUnknown(name) from slow
