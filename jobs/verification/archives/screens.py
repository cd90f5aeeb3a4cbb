"""The verifications of archives in words, and the topic under which an open page follows them."""

import datetime as dt
from collections.abc import Sequence
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.models import ArchiveFault, ArchiveVerification
from jobs.partitions.last_answers import HeldAnswers
from jobs.partitions.merged import Merged, Silent, read_everywhere
from jobs.verification.screens import SHOWN, Part, fault_rows, last_result, row_of, screen_of_parts
from nodes.database.clock import read_clock
from nodes.web import formats
from nodes.web.screens import Record
from nodes.web.topics import TopicUnknown

TOPIC: Final = "archive-verification"


def is_topic(name: str) -> bool:
    """True if it is the topic of the verifications of archives."""
    return name == TOPIC


def read_screen(name: str) -> Record:
    """
    Return the present screen.

    Raises:
        TopicUnknown: the name belongs to another topic.
    """
    if name != TOPIC:
        raise TopicUnknown(name)
    own, cached = _part(), _cached.answers()
    return screen_of_parts(Merged(own) if cached is None else cached.with_own(own), _total)


def present_screen() -> tuple[Record, Sequence[Silent]]:
    """Return the verifications of the archives of all partitions, and the partitions that did not answer."""
    found = read_everywhere(_part, _part)
    _cached.keep(found)
    return screen_of_parts(found, _total), found.silent


def _part(partition: str = "") -> Part | None:
    """Return the verifications in the database of this thread."""
    now = read_clock()
    rows = list(ArchiveVerification.objects.all()[:SHOWN])
    last = last_result(rows)
    place = {"partition": partition, "address": reverse("archive-verification")}
    return Part(
        [(row.started_at, _row(row, now=now, **place)) for row in rows],
        None if last is None else _last(last, now=now, **place),
        (0, 0) if last is None else (last.files, last.records),
    )


_cached: Final = HeldAnswers(_part)


def _total(counts: tuple[int, int], is_least: bool) -> str:  # noqa: FBT001 (the type of all totals)
    files, records = map(formats.number, counts)
    said = (
        _("Last results of all partitions: at least %(files)s files with %(records)s records.")
        if is_least
        else _("Last results of all partitions: %(files)s files with %(records)s records.")
    )
    return said % {"files": files, "records": records}


def _row(verification: ArchiveVerification, *, partition: str, address: str, now: dt.datetime) -> Record:
    return {
        **row_of(verification, partition=partition, address=address, now=now),
        "files": formats.number(verification.files),
        "records": formats.number(verification.records),
        "counts": ", ".join(_counts(verification)),
    }


def _counts(verification: ArchiveVerification) -> list[str]:
    return [
        f"{kind.label}: {formats.number(number)}"
        for kind in ArchiveFault.Kind
        if (number := getattr(verification, kind.value))
    ]


def _last(verification: ArchiveVerification, *, partition: str, address: str, now: dt.datetime) -> Record:
    row = _row(verification, partition=partition, address=address, now=now)
    facts = {**row, "at": formats.moment(verification.started_at, now=now), "host": verification.host}
    summary = _("Verified %(at)s on %(host)s: %(repaired)s faults repaired, %(skipped)s copies out of reach.") % facts
    return {
        **{name: row[name] for name in ("key", "partition", "partition_address")},
        "title": _("%(files)s files with %(records)s records") % row,
        "summary": f"{summary} {row['counts'] or _('No faults.')}",
        "questions": [],
        "faults": fault_rows(ArchiveFault.objects.filter(verification=verification)[:SHOWN]),
    }
