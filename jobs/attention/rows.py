"""The texts of the attention list on the overview."""

import datetime as dt
from collections.abc import Iterable

from django.utils.translation import gettext as _

from jobs.attention.lines import AttentionLine
from nodes.web import formats


def rows(lines: Iterable[AttentionLine], *, now: dt.datetime) -> list[dict[str, str]]:
    """Return a row for each line, in the order of the lines."""
    return [_row(line, now=now) for line in lines]


def in_words(line: AttentionLine) -> str:
    """Return the sentence of a line, followed by the name of the partition if it is another one."""
    if not line.partition:
        return line.sentence
    return _("%(sentence)s (partition %(name)s)") % {"sentence": line.sentence, "name": line.partition}


def _row(line: AttentionLine, *, now: dt.datetime) -> dict[str, str]:
    return {
        "key": " ".join(filter(None, (line.kind, line.key, line.partition))),
        "says": in_words(line),
        "since": _("Since %(moment)s UTC.") % {"moment": formats.moment(line.since, now=now)} if line.since else "",
        "address": line.link,
        "subject": line.subject,
    }
