"""Partitions that do not answer."""

import datetime as dt

from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import AttentionLine
from jobs.partitions.merged import Silent
from jobs.queries.partitions import read_silent


def silent_partitions(now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each partition that has told the control partition no figures for a while."""
    return [line_of_silent(one) for one in read_silent(now=now)]


def line_of_silent(silent: Silent) -> AttentionLine:
    """Return the line about a partition that does not answer. It is as old as the last figures of the partition."""
    return AttentionLine(
        kind="partition_silent",
        key=silent.name,
        subject=silent.name,
        sentence=_(
            "Partition %(name)s does not answer. Check its database and its managers. Lines about it are missing here."
        )
        % {"name": silent.name},
        since=silent.heard_at,
        link=reverse("partitions"),
    )
