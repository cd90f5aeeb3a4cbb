"""Descriptions of the operations on documents of one job, and the topic of their live updates."""

import datetime as dt
import re
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.bulk import verbs
from jobs.bulk.models import BulkOperation
from jobs.models import Job
from nodes.database.clock import read_clock
from nodes.tasks.models import ArchivedTask
from nodes.web import formats
from nodes.web.screens import Record, bar
from nodes.web.topics import TopicUnknown

_TOPIC: Final = re.compile(r"job-operations-([1-9][0-9]{0,17})")
# Largest number of operations on the page.
_SHOWN: Final = 50
_TONES: Final = {"done": "indexed", "running": "active", "waiting": "waiting"}


def operations_topic(job_id: int) -> str:
    """Return the topic of a job's operations."""
    return f"job-operations-{job_id}"


def is_topic(name: str) -> bool:
    """True if a page can follow a topic with this name. The job need not exist."""
    return _TOPIC.fullmatch(name) is not None


def read_screen(name: str) -> Record:
    """
    Return the present screen of this topic.

    Raises:
        TopicUnknown: the topic is unknown, or its job does not exist.
    """
    topic = _TOPIC.fullmatch(name)
    if topic is None or not Job.objects.filter(pk=int(topic[1])).exists():
        raise TopicUnknown(name)
    return operations_screen(int(topic[1]))


def operations_screen(job_id: int) -> Record:
    """Return the operations of a job, the newest first."""
    shown = list(BulkOperation.objects.filter(job_id=job_id)[:_SHOWN])
    states = verbs.states_of(shown)
    archived = set(ArchivedTask.objects.filter(pk__in=[one.task for one in shown]).values_list("pk", flat=True))
    now = read_clock()
    return {
        "operations": [_row(one, states[one.pk], is_archived=one.task in archived, now=now) for one in shown],
    }


def _row(operation: BulkOperation, state: str, *, is_archived: bool, now: dt.datetime) -> Record:
    is_open = state not in verbs.ENDED
    progress = verbs.progress_of(operation)
    cancel = {
        "key": "cancel",
        "address": reverse("job-bulk-cancel", args=[operation.job_id, operation.pk]),
        "label": _("Cancel"),
        "tone": "plain",
    }
    return {
        "key": str(operation.pk),
        "operation": operation.operation,
        # The archived task may no longer exist, because the cleaner deletes old ones.
        "task": _("task %(n)d") % {"n": operation.task} if is_open or is_archived else "",
        "task_address": reverse("task", args=[operation.task]),
        "filter": "; ".join(_condition(name, value) for name, value in operation.filter.items()),
        "state": state,
        "tone": _TONES.get(state, "failed"),
        **bar(progress.changed + progress.skipped, progress.shown if is_open else 0),
        "changed": f"{formats.number(progress.changed)} / {formats.number(progress.shown)}",
        "skipped": formats.number(progress.skipped),
        "silent": " ".join(
            _("Partition %(name)s did not answer the last request.") % {"name": name} for name in progress.silent
        ),
        "created": f"{formats.moment(operation.created_at, now=now)} · {operation.created_by}",
        "cancels": [cancel] if is_open else [],
    }


def _condition(name: str, value: object) -> str:
    if name == "documents" and isinstance(value, list):
        return ngettext("%(n)d chosen document", "%(n)d chosen documents", len(value)) % {"n": len(value)}
    return f"{name}: {', '.join(value) if isinstance(value, list) else value}"
