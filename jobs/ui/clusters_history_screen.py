"""
The texts of the page about all clusters at a past minute: a line for each partition, then the nodes of all partitions.
"""

import datetime as dt
import json
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from django.utils.translation import gettext as _

from jobs.partitions import this_partition
from jobs.partitions.merged import Merged, Silent, merge_lines
from jobs.partitions.this_partition import key_in
from jobs.queries.cluster.history import CHANGES_SHOWN, EVENTS_SHOWN, ClusterThen, EventThen, ProgressThen
from jobs.queries.cluster.history_of_all import PartitionMinute, add, jobs_of_all
from jobs.queries.progress import Step
from jobs.ui.cluster_history_screen import NODES_SHOWN, day_chart, event_then, job_then, then_screen
from jobs.ui.clusters_screen import count_in_words, partition_in_words
from nodes.web import formats
from nodes.web.screens import Record

# The columns that have numbers in the line of a partition.
_NUMBERS = ("managers_count", "workers_count", "free", "rate", "read", "term")


def history_screen(found: Merged[PartitionMinute | None], *, now: dt.datetime, partition: str = "") -> dict[str, Any]:
    """
    Return the minute, the events and the chart of the day: of the only database, of all partitions, or of one
    partition.
    """
    parts = {name or this_partition.control_name(): part for name, part in _parts(found).items()}
    firsts = [part.first for part in parts.values() if part.first is not None]
    events, changes = (
        _events(found, lambda part: part.events),
        _events(found, lambda part: part.large_events, last=True),
    )
    rows: Callable[[Any], Record] = lambda one: _event_row(one, now=now, partition=partition)  # noqa: E731
    return {
        "first": min(firsts, default=None),
        "then": _screen_of_minute(parts, found.silent, now=now),
        "events": [rows(one) for one in events],
        "large_events": [rows(one) for one in changes],
        "chart": _chart({name: part.day for name, part in parts.items()}),
    }


def _parts(found: Merged[PartitionMinute | None]) -> dict[str, PartitionMinute]:
    """Return the data of each partition that was read, by name. This partition has the name ""."""
    parts = {"": found.own, **dict(sorted(found.others.items()))}
    return {name: part for name, part in parts.items() if part is not None}


def _screen_of_minute(
    parts: Mapping[str, PartitionMinute], silent: Sequence[Silent], *, now: dt.datetime
) -> Record | None:
    known = {name: part.then for name, part in parts.items() if part.then is not None}
    if not this_partition.control_name():
        return next((then_screen(then) for then in known.values()), None)
    if not known and not silent:
        return None
    screens = {name: then_screen(then) for name, then in known.items()}
    managers = [
        {**row, "partition": partition_in_words(name)} for name, then in screens.items() for row in then["managers"]
    ]
    workers = [
        {**row, "partition": partition_in_words(name)} for name, then in screens.items() for row in then["workers"]
    ]
    managers.sort(key=lambda row: not row["crown"])
    in_all = {kind: sum(len(getattr(then, kind)) for then in known.values()) for kind in ("managers", "workers")}
    lines = [_line(name, screens.get(name), known.get(name), part) for name, part in parts.items()]
    lines += [_line_of_silent(one, now=now) for one in silent]
    if len(lines) > 1:
        lines.append(_line_of_sums(list(known.values()), is_partial=len(known) < len(lines)))
    return {
        "is_exact": True,
        "partitions": lines,
        "managers": managers[:NODES_SHOWN],
        "more_managers": formats.more(in_all["managers"] - min(len(managers), NODES_SHOWN)),
        "workers": workers[:NODES_SHOWN],
        "more_workers": formats.more(in_all["workers"] - min(len(workers), NODES_SHOWN)),
        "jobs": [job_then(job) for job in jobs_of_all(list(known.values()))],
    }


def _line(name: str, screen: Record | None, then: ClusterThen | None, part: PartitionMinute) -> Record:
    if screen is None or then is None:
        return {**_without(name), "note": _("No state is stored for this minute.")}
    note = (
        ""
        if then.is_exact
        else _("No state is stored for this minute. This is the state of %(at)s UTC.") % {"at": screen["at"]}
    )
    return {
        **{number: screen[number] for number in _NUMBERS},
        "key": name,
        "name": name,
        "main": screen["main"],
        "main_tone": screen["main_tone"],
        "note": note,
    }


def _line_of_silent(silent: Silent, *, now: dt.datetime) -> Record:
    age = formats.UNKNOWN if silent.heard_at is None else formats.age(silent.heard_at, now=now)
    return {**_without(silent.name), "note": _("No answer. Its last figures came %(age)s.") % {"age": age}}


def _without(name: str) -> dict[str, str]:
    """Return the line of a partition without known data."""
    unknown = dict.fromkeys(_NUMBERS, formats.UNKNOWN)
    return {**unknown, "key": name, "name": name, "main": _("unknown"), "main_tone": "failed"}


def _line_of_sums(parts: Sequence[ClusterThen], *, is_partial: bool) -> Record:
    progress = reduce(add, (part.progress for part in parts), ProgressThen())
    rate, read = formats.rate(progress.documents / 60), formats.size(round(progress.bytes / 60))
    mains = sum(part.main is not None for part in parts)
    return {
        "key": "+",
        "name": _("All"),
        "main": count_in_words(mains, is_partial=is_partial),
        "main_tone": "quiet" if mains == len(parts) and not is_partial else "failed",
        "term": "",
        "managers_count": count_in_words(sum(len(part.managers) for part in parts), is_partial=is_partial),
        "workers_count": count_in_words(sum(len(part.workers) for part in parts), is_partial=is_partial),
        "free": count_in_words(sum(part.groups_without_owner for part in parts), is_partial=is_partial),
        "rate": _("at least %(n)s") % {"n": rate} if is_partial else rate,
        "read": _("at least %(n)s") % {"n": read} if is_partial else read,
        "note": "",
    }


def _events(
    found: Merged[PartitionMinute | None],
    events: Callable[[PartitionMinute], Sequence[EventThen]],
    *,
    last: bool = False,
) -> Sequence[Any]:
    """Return the first events of all partitions by time; with `last`, the newest events, the newest first."""
    merged = merge_lines(found, lambda part: events(part) if part else (), key=lambda one: one.at, is_downwards=last)
    return merged[: CHANGES_SHOWN if last else EVENTS_SHOWN]


def _event_row(one: Any, *, now: dt.datetime, partition: str) -> Record:  # noqa: ANN401 (a placed event)
    row = event_then(one.line, now=now, partition=partition)
    own = this_partition.control_name()
    named = partition_in_words(one.partition or own) if own else ""
    return {**row, "key": key_in(one.partition, row["key"]), "partition": named}


def _chart(days: Mapping[str, Sequence[Step]]) -> str:
    """Return the input of `static/js/chart.js`: the documents a second of each partition, stacked."""
    if not this_partition.control_name():
        return next((day_chart(day) for day in days.values()), "")
    rates = {name: {step.at: step.documents_per_second for step in day} for name, day in days.items()}
    moments = sorted({at for steps in rates.values() for at in steps})
    if not any(rate for steps in rates.values() for rate in steps.values()):
        return ""
    series = [
        {
            "label": _("Documents a second in partition %(name)s") % {"name": name},
            "values": [round(steps.get(at, 0.0), 3) for at in moments],
        }
        for name, steps in rates.items()
    ]
    labels = [f"{at:%Y-%m-%d %H:%M}" for at in moments]
    return json.dumps({"labels": labels, "series": series, "stacked": True})
