"""The screens of background tasks that an open page can follow. Their lists have the tasks of all partitions."""

from typing import Final

from django.http import QueryDict

from jobs.queries.tasks import (
    read_archived_everywhere,
    read_roster_everywhere,
    read_scheduled_everywhere,
    read_tasks_everywhere,
    read_templates_everywhere,
)
from jobs.ui.tasks_screens import archived_screen, roster_screen, scheduled_screen, tasks_screen, templates_screen
from nodes.database.clock import read_clock
from nodes.errors import TooSlow
from nodes.tasks.pages import topics
from nodes.tasks.pages.filters import ArchivedFilterForm, ScheduledFilterForm, TaskFilterForm
from nodes.web.screens import Record
from nodes.web.topics import TopicUnknown

_FORMS: Final = {
    "tasks": TaskFilterForm,
    "tasks-scheduled": ScheduledFilterForm,
    "tasks-archived": ArchivedFilterForm,
}

is_topic = topics.is_topic


def read_screen(name: str) -> Record:
    """
    Return the present screen of this topic.

    Raises:
        TopicUnknown: the topic or a filter is unknown, or its tasks cannot be read in time.
    """
    found = topics.parts_of_list(name)
    if found is None:
        return topics.read_screen(name)
    page, query = found
    now = read_clock()
    if page == "tasks-templates":
        return templates_screen(read_templates_everywhere(is_open=True), now=now)
    if page == "tasks-workers":
        return roster_screen(read_roster_everywhere(is_open=True), now=now)
    form = _FORMS[page](QueryDict(query))
    if not form.is_valid():
        raise TopicUnknown(name)
    wanted = form.as_filter()
    try:
        if page == "tasks":
            return tasks_screen(read_tasks_everywhere(group=wanted.group, is_open=True), now=now)
        if page == "tasks-scheduled":
            return scheduled_screen(read_scheduled_everywhere(wanted, is_open=True), now=now)
        return archived_screen(read_archived_everywhere(wanted, is_open=True), now=now)
    except TooSlow as slow:
        raise TopicUnknown(name) from slow
