"""The cluster at a past minute in words."""

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any, Final

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.queries.cluster.history import (
    ClusterThen,
    EventThen,
    GroupThen,
    JobThen,
    NodeThen,
    ProgressThen,
)
from jobs.queries.progress import Step
from jobs.ui.cluster_screen import EVENT_TONES, size_of_tile
from nodes.web import formats
from nodes.web.screens import Record
from nodes.web.translated_words import translated

_GROUPS_SHOWN: Final = 24
NODES_SHOWN: Final = 40


def moment_of_address(at: dt.datetime) -> str:
    """Return a minute as text, as in parameters of an address and in fields of forms."""
    return f"{at.astimezone(dt.UTC):%Y-%m-%dT%H:%M}"


def address_of_minute(at: dt.datetime, *, partition: str = "") -> str:
    """Return the query string of the page for a minute. Without a `partition`, the page shows all partitions."""
    return f"?at={moment_of_address(at)}" + (f"&partition={partition}" if partition else "")


def then_screen(then: ClusterThen) -> dict[str, Any]:
    heaviest = max((group.weight for group in then.groups), default=0.0)
    return {
        "at": f"{then.at:%Y-%m-%d %H:%M}",
        "is_exact": then.is_exact,
        "main": then.main.name if then.main else _("No main manager"),
        "main_tone": "working" if then.main else "failed",
        "term": formats.number(then.term),
        "rate": formats.rate(then.progress.documents / 60),
        "read": formats.size(round(then.progress.bytes / 60)),
        "managers_count": formats.number(len(then.managers)),
        "workers_count": formats.number(len(then.workers)),
        "free": formats.number(then.groups_without_owner),
        "managers": [
            _manager(node, [group for group in then.groups if group.owner == node.id], heaviest=heaviest)
            for node in then.managers[:NODES_SHOWN]
        ],
        "more_managers": formats.more(len(then.managers) - NODES_SHOWN),
        "workers": [_node(node) for node in then.workers[:NODES_SHOWN]],
        "more_workers": formats.more(len(then.workers) - NODES_SHOWN),
        "jobs": [job_then(job) for job in then.jobs],
    }


def event_then(event: EventThen, *, now: dt.datetime, partition: str = "") -> dict[str, object]:
    """
    Return an event with a link to its minute. Without a `partition`, the link leads to the page of all partitions.
    """
    return {
        "key": str(event.id),
        "at": formats.moment(event.at, now=now),
        "message": event.message,
        "tone": EVENT_TONES.get(event.kind, "quiet"),
        "address": address_of_minute(event.at, partition=partition),
    }


def day_chart(steps: Sequence[Step]) -> str:
    """Return the input of `static/js/chart.js`; '' without a document."""
    if not any(step.documents for step in steps):
        return ""
    series = [{"label": _("Documents a second"), "values": [round(step.documents_per_second, 3) for step in steps]}]
    return json.dumps({"labels": [f"{step.at:%Y-%m-%d %H:%M}" for step in steps], "series": series})


def _node(node: NodeThen) -> Record:
    return {
        "key": node.id,
        "name": node.name,
        "status": translated(node.status),
        "tone": {"running": "indexed", "draining": "excluded"}.get(node.status, "working"),
        "machine": node.machine,
        "tags": ", ".join(node.tags),
    }


def _manager(node: NodeThen, groups: Sequence[GroupThen], *, heaviest: float) -> Record:
    number = ngettext("%(n)s group", "%(n)s groups", node.groups) % {"n": formats.number(node.groups)}
    return {
        **_node(node),
        "role": _("main") if node.is_main else "",
        "crown": "working" if node.is_main else "",
        "load": _("%(groups)s, weight %(weight)s") % {"groups": number, "weight": f"{node.weight:g}"},
        "groups": [_tile(group, heaviest=heaviest) for group in groups[:_GROUPS_SHOWN]],
        "hidden": formats.more(node.groups - min(len(groups), _GROUPS_SHOWN)),
    }


def _tile(group: GroupThen, *, heaviest: float) -> Record:
    return {
        "key": str(group.id),
        "name": group.name.removeprefix("https://").removeprefix("http://") or str(group.id),
        "weight": f"{group.weight:g}",
        "size": size_of_tile(group.weight, heaviest=heaviest),
    }


def job_then(job: JobThen) -> Record:
    return {
        "name": job.name,
        "address": reverse("job", args=[job.id]),
        "status": translated(job.status),
        "run": formats.number(job.run),
        "version": formats.number(job.version) if job.version else formats.UNKNOWN,
        "rate": formats.rate(job.progress.documents / 60),
        "states": _states(job.progress),
    }


def _states(progress: ProgressThen) -> list[str]:
    """Return the number of documents by state, in the order of the columns of the table."""
    states = progress.states
    if states is None:
        return [formats.UNKNOWN] * 6
    return [
        formats.number(number)
        for number in (
            states.indexed,
            states.unchanged,
            states.excluded,
            states.failed,
            states.active,
            states.waiting,
        )
    ]
