"""The verifications of archives in words, and the topic under which an open page follows them."""

import datetime as dt
from typing import Final

from django.utils.translation import gettext as _

from jobs.models import ArchiveFault, ArchiveVerification
from jobs.verification.screens import SHOWN, fault_rows, last_result, row_of
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
        TopicUnknown: this is another topic.
    """
    if name != TOPIC:
        raise TopicUnknown(name)
    return present_screen()


def present_screen() -> Record:
    """Return the verifications of archives."""
    now = read_clock()
    rows = list(ArchiveVerification.objects.all()[:SHOWN])
    last = last_result(rows)
    return {
        "last": [] if last is None else [_last(last, now=now)],
        "verifications": [_row(row, now=now) for row in rows],
    }


def _row(verification: ArchiveVerification, *, now: dt.datetime) -> Record:
    return {
        **row_of(verification, now=now),
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


def _last(verification: ArchiveVerification, *, now: dt.datetime) -> Record:
    row = _row(verification, now=now)
    facts = {**row, "at": formats.moment(verification.started_at, now=now), "host": verification.host}
    summary = _("Verified %(at)s on %(host)s: %(repaired)s faults repaired, %(skipped)s copies out of reach.") % facts
    return {
        "key": row["key"],
        "title": _("%(files)s files with %(records)s records") % row,
        "summary": f"{summary} {row['counts'] or _('No faults.')}",
        "questions": [],
        "faults": fault_rows(ArchiveFault.objects.filter(verification=verification)[:SHOWN]),
    }
