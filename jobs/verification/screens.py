"""
The verifications of an output in words, the parts of every list of verifications, and the topics that pages follow.
"""

import datetime as dt
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.models import (
    ArchiveFault,
    ArchiveVerification,
    OutputConnection,
    OutputFault,
    OutputVerification,
    Verification,
)
from jobs.partitions.last_answers import HeldAnswers
from jobs.partitions.merged import Merged, Silent, read_everywhere
from jobs.partitions.this_partition import address_in, key_in
from jobs.verification import verbs
from jobs.verification.attempts import state_of
from nodes.database.clock import read_clock
from nodes.web import formats
from nodes.web.screens import Record
from nodes.web.topics import TopicUnknown

V = TypeVar("V", bound=Verification)

# Numbers of verifications, and of faults of the last one, that a page shows.
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
    own, held = _part_of(output), _cached_of(output.name).answers()
    return screen_of_parts(Merged(own) if held is None else held.with_own(own), _total)


def screen_of(output: OutputConnection) -> tuple[Record, Sequence[Silent]]:
    """Return the verifications of an output in all partitions, and the partitions that did not answer."""
    found: Merged[Part | None] = read_everywhere(lambda: _part_of(output), lambda name: _part_named(output.name, name))
    _cached_of(output.name).keep(found)
    return screen_of_parts(found, _total), found.silent


@dataclass(frozen=True, slots=True)
class Part:
    """
    The newest verifications of one partition in words, each with its start.

    `last` is the last one with a result, and `counts` are its numbers, which pages of all partitions add up.
    """

    rows: Sequence[tuple[dt.datetime, Record]]
    last: Record | None
    counts: tuple[int, int] = (0, 0)


# A function that returns a sentence about added counts. The second argument is True if a part is missing, so that the
# counts are lower limits.
Total = Callable[[tuple[int, int], bool], str]


def screen_of_parts(found: Merged[Part | None], total: Total) -> Record:
    """
    Return the screen of all parts: rows by their start, and the last results of the partitions, which pages add up.
    """
    parts = [part for _name, part in [("", found.own), *sorted(found.others.items())] if part is not None]
    rows = [row for part in parts for row in part.rows]
    if len(parts) > 1:
        rows.sort(key=lambda row: row[0], reverse=True)
    last = [part.last for part in parts if part.last is not None]
    has_others = bool(found.others or found.silent)
    one, other = (sum(part.counts[place] for part in parts) for place in (0, 1))
    is_least = bool(found.silent) or len(last) < len(parts)
    return {
        "totals": [{"key": "total", "text": total((one, other), is_least)}] if has_others and last else [],
        "last": last,
        "verifications": [row for _start, row in rows[:SHOWN]],
    }


def _part_of(output: OutputConnection, partition: str = "") -> Part:
    """Return the verifications of an output in the database of this thread."""
    now = read_clock()
    rows = list(OutputVerification.objects.filter(output=output)[:SHOWN])
    last = last_result(rows)
    place = {"partition": partition, "address": reverse("output-verification", args=[output.pk])}
    return Part(
        [(row.started_at, _row(row, now=now, **place)) for row in rows],
        None if last is None else _last(last, now=now, **place),
        (0, 0) if last is None else (last.documents - last.faults, last.documents),
    )


def _part_named(name: str, partition: str) -> Part | None:
    output = OutputConnection.objects.filter(name=name).first()
    return None if output is None else _part_of(output, partition)


@lru_cache(maxsize=100)
def _cached_of(name: str) -> HeldAnswers[Part | None]:
    """Return the last answers of other partitions about an output, for its open pages."""
    return HeldAnswers(lambda partition: _part_named(name, partition))


def _total(counts: tuple[int, int], is_least: bool) -> str:  # noqa: FBT001 (the type of all totals)
    in_sync, documents = counts
    said = (
        _("Last results of all partitions: %(in_sync)s of at least %(documents)s documents in sync.")
        if is_least
        else _("Last results of all partitions: %(in_sync)s of %(documents)s documents in sync.")
    )
    share = formats.share(in_sync, documents) if documents else formats.UNKNOWN
    return said % {"in_sync": share, "documents": formats.number(documents)}


def last_result(rows: Sequence[V]) -> V | None:
    """Return the newest verification that has a result; None if none has."""
    return next((row for row in rows if row.ended_at is not None and not row.refused), None)


def row_of(
    verification: OutputVerification | ArchiveVerification, *, partition: str, address: str, now: dt.datetime
) -> Record:
    """
    Return the cells that verifications of all kinds have. `address` is the address of their page in their partition.
    """
    state = state_of(verification)
    return {
        "key": key_in(partition, verification.pk),
        "partition": _("In partition %(name)s") % {"name": partition} if partition else "",
        "partition_address": address_in(partition, address) if partition else "",
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


def _row(verification: OutputVerification, *, partition: str, address: str, now: dt.datetime) -> Record:
    counts = {
        name: formats.number(getattr(verification, name))
        for name in ("documents", "missing", "ghost", "stale", "damaged")
    }
    in_sync = verification.documents - verification.faults
    return {
        **row_of(verification, partition=partition, address=address, now=now),
        **counts,
        "in_sync": formats.share(in_sync, verification.documents) if verification.documents else formats.UNKNOWN,
        "buckets": formats.number(verbs.buckets_of(verification)),
    }


def _last(verification: OutputVerification, *, partition: str, address: str, now: dt.datetime) -> Record:
    row = _row(verification, partition=partition, address=address, now=now)
    summary = _(
        "Verified %(at)s: %(missing)s missing, %(ghost)s ghost, %(stale)s stale, %(damaged)s damaged lines, "
        "%(repaired)s repaired."
    )
    questions = [{"key": "question", "text": verification.question}] if verification.question else []
    return {
        **{name: row[name] for name in ("key", "partition", "partition_address")},
        "title": _("%(in_sync)s of %(documents)s documents in sync") % row,
        "summary": summary % {**row, "at": formats.moment(verification.started_at, now=now)},
        "questions": questions,
        "faults": fault_rows(OutputFault.objects.filter(verification=verification)[:SHOWN]),
    }
