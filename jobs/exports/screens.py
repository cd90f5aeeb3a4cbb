"""The texts of the list of exports, and the topic that an open page follows."""

import datetime as dt
from collections.abc import Iterable
from typing import Final

from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.exports import verbs
from jobs.exports.models import Export
from jobs.exports.sources import SOURCES
from nodes.database.clock import read_clock
from nodes.permissions import May, may_do_everything
from nodes.web import formats
from nodes.web.screens import Record, bar
from nodes.web.topics import TopicUnknown

TOPIC: Final = "exports"
# Largest number of exports on the page.
_SHOWN: Final = 100
_STATES: Final = {
    "waiting": (gettext_lazy("waiting"), "waiting"),
    "running": (gettext_lazy("running"), "active"),
    "done": (gettext_lazy("done"), "indexed"),
    "cancelled": (gettext_lazy("cancelled"), "excluded"),
    "failed": (gettext_lazy("failed"), "failed"),
}
# Largest number of shown values of a list in a filter.
_VALUES_SHOWN: Final = 5


def topic_of(may: May) -> str:
    """
    Return the topic that the page of a user follows. A topic shows the same to all users, so a user who may not see all
    exports gets "".
    """
    return TOPIC if all(may(source.permission) for source in SOURCES.values()) else ""


def is_topic(name: str) -> bool:
    """True if this is the topic of the list of exports."""
    return name == TOPIC


def read_screen(name: str) -> Record:
    """
    Return the present screen of the list.

    Raises:
        TopicUnknown: the name belongs to another topic.
    """
    if name != TOPIC:
        raise TopicUnknown(name)
    return exports_screen(may_do_everything)


def exports_screen(may: May) -> Record:
    """Return the exports that a user may see."""
    return {"exports": _rows(verbs.visible(may)[:_SHOWN], now=read_clock())}


def _rows(exports: Iterable[Export], *, now: dt.datetime) -> list[Record]:
    return [_row(verbs.with_state(export), now=now) for export in exports]


def _row(seen: verbs.ExportWithState, *, now: dt.datetime) -> Record:
    export = seen.export
    label, tone = _STATES[seen.state]
    is_open = seen.state in {"waiting", "running"}
    total = export.total or 0
    return {
        "key": str(export.pk),
        "number": str(export.pk),
        "content": f"{SOURCES[export.what].title} ({Export.Format(export.format).label})",
        "filter": "; ".join(_of_filter(name, value, now=now) for name, value in export.filter.items() if value != []),
        "state": str(label),
        "tone": tone,
        "problem": seen.problem,
        "rows": formats.number(export.rows),
        "total": f"/ {formats.number(total)}" if is_open and total else "",
        **bar(export.rows, total if is_open else 0),
        "size": formats.size(export.bytes) if export.file else formats.UNKNOWN,
        "created": f"{formats.moment(export.created_at, now=now)} · {export.created_by}",
        "expires": formats.time_until(export.expires_at, now=now) if export.expires_at else formats.UNKNOWN,
        "file": _("Download") if export.file else "",
        "file_address": reverse("export-file", args=[export.pk]),
        "cancels": _button("export-cancel", export, _("Cancel"), "plain") if is_open else [],
        "deletes": [] if is_open else _button("export-delete", export, _("Delete"), "quiet"),
    }


def _of_filter(name: str, value: object, *, now: dt.datetime) -> str:
    # The field `now` of a filter is the moment to which words such as "due" refer.
    moment = parse_datetime(value) if name == "now" and isinstance(value, str) else None
    return (
        f"{name}: {in_words(value)}"
        if moment is None
        else _("at %(moment)s") % {"moment": formats.moment(moment, now=now)}
    )


def _button(name: str, export: Export, label: str, tone: str) -> list[Record]:
    return [{"key": name, "address": reverse(name, args=[export.pk]), "label": label, "tone": tone}]


def in_words(value: object) -> str:
    """Return a value of a filter as text."""
    if not isinstance(value, list):
        return str(value)
    shown = ", ".join(map(str, value[:_VALUES_SHOWN]))
    return f"{shown} {formats.more(len(value) - _VALUES_SHOWN)}".rstrip()
