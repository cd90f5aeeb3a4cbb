"""Partitions that do not answer, or do not take the rows that this partition sends."""

import datetime as dt
from typing import Final

from django.db import connection
from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import AttentionLine
from jobs.partitions import this_partition
from jobs.partitions.kept_log import Behind, read_behind
from jobs.partitions.merged import Silent
from jobs.queries.partitions import read_silent
from nodes.web import formats

_NAME: Final = """
SELECT max(body ->> 'here') FROM jobs_partitionfact WHERE source = target AND key = 'names:all'
"""


def silent_partitions(now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each partition that has sent the control partition no figures for a while."""
    return [line_of_silent(one) for one in read_silent(now=now)]


def partitions_behind(_now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each partition for which the server of this database keeps much of its write-ahead log."""
    placement = this_partition.placement()
    if placement is None:
        return []
    with connection.cursor() as cursor:
        # This thread may use the database of another partition, so the name is read from that database.
        cursor.execute(_NAME)
        ((name,),) = cursor.fetchall()
        found = read_behind(cursor, here=name or placement.here)
    return [_line_of_late_partition(one) for one in found]


def _line_of_late_partition(one: Behind) -> AttentionLine:
    facts = {"name": one.name, "kept": formats.size(one.kept), "most": formats.size(one.most or 0)}
    if one.is_lost:
        sentence = _(
            "The write-ahead log for partition %(name)s exceeded its limit. When the partition answers again, "
            "the exchange starts over with all rows of the run."
        )
    elif one.most is None:
        sentence = _(
            "The server keeps %(kept)s of its write-ahead log for partition %(name)s, without a limit. "
            "Check that partition, or set max_slot_wal_keep_size."
        )
    else:
        sentence = _(
            "The server keeps %(kept)s of its write-ahead log for partition %(name)s; the limit is %(most)s. "
            "Check that partition. Above the limit, the exchange starts over with all rows of the run."
        )
    return AttentionLine(
        kind="partition_behind",
        key=one.name,
        subject=one.name,
        sentence=sentence % facts,
        since=None,
        link=reverse("partitions"),
    )


def line_of_silent(silent: Silent) -> AttentionLine:
    """Return the line about a partition that does not answer. Its date is that of the partition's last figures."""
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
