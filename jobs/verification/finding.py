"""
The comparison of an output with its record, in chunks.

A document that seems to differ is compared once more under the lock of its record, so a crawl that writes meanwhile
gives no false finding. The transaction of a chunk also writes the counts and the last hash, so each document counts
once, whichever process is killed.
"""

import bisect
import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import psycopg
from django.db import connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from jobs.connectors.output.base import Lists
from jobs.connectors.output.buckets import BUCKETS, ranges_of
from jobs.models import Fault, OutputFault, OutputVerification
from jobs.partitions.placement import Placement
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows
from jobs.queue.verified import lock_records, read_in_other_outputs, read_known, unlock_records
from jobs.verification.attempts import ShouldContinue, note
from jobs.verification.comparison import candidates, compare
from jobs.verification.other_partitions import may_belong_elsewhere
from jobs.verification.reading import Group, read_groups

# Number of documents that are compared under lock in one transaction.
_AT_ONCE: Final = 500
# Largest number of findings that a verification stores. Further findings are only counted.
STORED: Final = 100_000


def cursor_of_database() -> psycopg.Cursor[Any]:
    """Return a cursor of Django's connection, whose rows outputs can read."""
    connection.ensure_connection()
    return named_rows(connection.connection)


def find(
    verification: OutputVerification,
    output: Lists,
    others: Placement | None,
    *,
    should_continue: ShouldContinue[OutputVerification],
) -> bool:
    """
    Compare the chosen buckets from the last chunk on. Return True if all were compared.

    `others` is the placement of the hosts if other partitions may have documents in this output.

    Raises:
        OutputError: the output cannot be read.
        AnotherAttempt: another attempt carries out the verification.
    """
    if verification.compared_at is not None:
        return True
    chosen = range(BUCKETS) if verification.buckets is None else sorted(verification.buckets)
    done = "" if verification.cursor is None else verification.cursor.hex
    left = [bucket for bucket in chosen if ranges_of([bucket])[0][1] > done]
    for group in read_groups(cursor_of_database(), verification.output_id, output, left):
        if not _find_in(verification, group, others, should_continue=should_continue):
            return False
    note(verification, compared_at=Now())
    return True


def _find_in(
    verification: OutputVerification,
    group: Group,
    others: Placement | None,
    *,
    should_continue: ShouldContinue[OutputVerification],
) -> bool:
    done = "" if verification.cursor is None else verification.cursor.hex
    hashes = group.hashes
    suspects = [hash_ for hash_ in candidates(group.recorded, group.held) if hash_ > done]
    for start in range(0, len(suspects) + 1, _AT_ONCE):
        if not should_continue(verification):
            return False
        chunk = suspects[start : start + _AT_ONCE]
        is_last = start + _AT_ONCE > len(suspects)
        upto = group.last if is_last else chunk[-1]
        done = "" if verification.cursor is None else verification.cursor.hex
        read = bisect.bisect_right(hashes, upto) - bisect.bisect_right(hashes, done)
        _confirm(verification, group, chunk, others, upto=upto, read=read, is_last=is_last)
    return True


@retried
@transaction.atomic
def _confirm(
    verification: OutputVerification,
    group: Group,
    chunk: Sequence[str],
    others: Placement | None,
    *,
    upto: str,
    read: int,
    is_last: bool,
) -> None:
    """Compare these documents under the locks of their records, and store the differences."""
    cursor = cursor_of_database()
    recorded = lock_records(cursor, verification.output_id, chunk)
    held = group.listing.look(cursor, chunk) if chunk else {}
    known = read_known(cursor, verification.output_id, chunk)
    in_other_outputs = read_in_other_outputs(cursor, verification.output_id, chunk)
    skipped = of_others = 0
    found = []
    for hash_ in chunk:
        kind = compare(recorded.get(hash_), held.get(hash_))
        if kind is None:
            continue
        of_jobs = known.get(hash_)
        is_unknown_ghost = kind == Fault.GHOST and of_jobs is None
        if is_unknown_ghost and (hash_ in in_other_outputs or may_belong_elsewhere(held[hash_].url, others)):
            of_others += 1
            continue
        if of_jobs is not None and of_jobs.is_claimed:
            # Skip a claimed document, because a worker may be about to write it. An earlier flush may have failed after
            # it wrote to the output.
            skipped += 1
            continue
        identifier = of_jobs.identifier if of_jobs else held[hash_].url if hash_ in held else ""
        found.append(OutputFault(verification=verification, kind=kind, hash=uuid.UUID(hash_), identifier=identifier))
    unlock_records(cursor, verification.output_id, chunk)
    counts = Counter(fault.kind for fault in found)
    room = STORED - verification.faults
    OutputFault.objects.bulk_create(found[: max(0, room)])
    note(
        verification,
        cursor=uuid.UUID(upto),
        documents=F("documents") + read - of_others,
        skipped=F("skipped") + skipped,
        damaged=F("damaged") + (group.listing.damaged if is_last else 0),
        **{kind.value: F(kind.value) + counts[kind] for kind in Fault},
    )
