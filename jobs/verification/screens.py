"""The verifications of an output in words, the parts of every list of verifications, and the topics that pages follow."""

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from django.utils.translation import gettext as _

from jobs.models import (
    ArchiveFault,
    ArchiveVerification,
    OutputConnection,
    OutputFault,
    OutputVerification,
    Verification,
)
from jobs.verification import verbs
from jobs.verification.attempts import state_of
from nodes.database.clock import read_clock
from nodes.web import formats
from nodes.web.screens import Record
from nodes.web.topics import TopicUnknown

V = TypeVar("V", bound=Verification)

# Verifications, and faults of the last one, that a page shows.
SHOWN: Final = 50
_TOPIC: Final = re.compile(r"output-verification-(\d{1,18})")
_TONES: Final = {"done": "indexed", "running": "active", "waiting": "waiting"}


def topic_of(output: OutputConnection) -> str:
    return f"output-verification-{output.pk}"


def is_topic(name: str) -> bool:
    """True if it is the topic of the verifications of an output."""
    return _TOPIC.fullmatch(name) is not None


def read_screen(name: str) -> Record:
    """
    Return the present screen of this topic.

    Raises:
        TopicUnknown: the output no longer exists, or this is another topic.
    """
    found = _TOPIC.fullmatch(name)
    output = OutputConnection.objects.filter(pk=int(found[1])).first() if found else None
    if output is None:
        raise TopicUnknown(name)
    return screen_of(output)


def screen_of(output: OutputConnection) -> Record:
    """Return the verifications of an output."""
    now = read_clock()
    rows = list(OutputVerification.objects.filter(output=output)[:SHOWN])
    last = last_result(rows)
    return {
        "last": [] if last is None else [_last(last, now=now)],
        "verifications": [_row(row, now=now) for row in rows],
    }


def last_result(rows: Sequence[V]) -> V | None:
    """Return the newest verification that has a result."""
    return next((row for row in rows if row.ended_at is not None and not row.refused), None)


def row_of(verification: OutputVerification | ArchiveVerification, *, now: dt.datetime) -> Record:
    """Return the cells that verifications of all kinds have."""
    state = state_of(verification)
    return {
        "key": str(verification.pk),
        "state": state,
        "tone": _TONES.get(state, "failed"),
        "refused": verification.refused,
        "started": f"{formats.moment(verification.started_at, now=now)} · {verification.started_by}",
        "repaired": formats.number(verification.repaired),
        "skipped": formats.number(verification.skipped),
    }


def fault_rows(faults: Iterable[OutputFault | ArchiveFault]) -> list[Record]:
    return [
        {
            "key": str(fault.pk),
            "kind": str(fault.get_kind_display()),
            "subject": str(fault),
            "result": fault.result,
        }
        for fault in faults
    ]


def _row(verification: OutputVerification, *, now: dt.datetime) -> Record:
    counts = {
        name: formats.number(getattr(verification, name))
        for name in ("documents", "missing", "ghost", "stale", "damaged")
    }
    in_sync = verification.documents - verification.faults
    return {
        **row_of(verification, now=now),
        **counts,
        "in_sync": formats.share(in_sync, verification.documents) if verification.documents else formats.UNKNOWN,
        "buckets": formats.number(verbs.buckets_of(verification)),
    }


def _last(verification: OutputVerification, *, now: dt.datetime) -> Record:
    row = _row(verification, now=now)
    summary = _(
        "Verified %(at)s: %(missing)s missing, %(ghost)s ghost, %(stale)s stale, %(damaged)s damaged lines, "
        "%(repaired)s repaired."
    )
    questions = [{"key": "question", "text": verification.question}] if verification.question else []
    return {
        "key": row["key"],
        "title": _("%(in_sync)s of %(documents)s documents in sync") % row,
        "summary": summary % {**row, "at": formats.moment(verification.started_at, now=now)},
        "questions": questions,
        "faults": fault_rows(OutputFault.objects.filter(verification=verification)[:SHOWN]),
    }
