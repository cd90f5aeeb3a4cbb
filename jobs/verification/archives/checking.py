"""
One archive file is compared with its copies and its rows, and repaired.

If a copy is whole, damaged copies are written again from it. Otherwise the records that the best copy lacks are marked
as lost. If no record is left, the file is marked as lost, too. A document is scheduled only if its newest archived body
is lost.

The transaction of a file also writes the counts and the id of the file, so each file counts once.
"""

import socket
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
from django.db import connection, transaction
from django.db.models import F

from jobs.archive.records import Format
from jobs.models import ArchiveFault, ArchiveFile, ArchiveRecord, ArchiveVerification, FileState
from jobs.queue import archived
from jobs.verification.archives.inspection import (
    Compared,
    InspectedCopy,
    Row,
    State,
    compare,
    inspect_local,
    inspect_stored,
)
from jobs.verification.archives.repairing import write_local, write_stored
from jobs.verification.attempts import note
from nodes.database.clock import read_clock
from nodes.stores.port import StoreError

# Results of repairs.
WRITTEN: Final = "written again"
KEPT_OTHERS: Final = "the other records are kept"
ACCEPTED: Final = "accepted"
MARKED_LOST: Final = "marked as lost"
READ_AGAIN: Final = "read again"
NOT_KEPT: Final = "no longer expected there"
CLAIMED: Final = "claimed"
NOT_NOW: Final = "its job is in a transition"
NO_WHOLE_COPY: Final = "no whole copy can be reached"
MOVED: Final = "moved aside"
DONE: Final = frozenset({WRITTEN, KEPT_OTHERS, ACCEPTED, MARKED_LOST, READ_AGAIN, MOVED, NOT_KEPT})

_FAULTS: Final = {
    State.DELETED: ArchiveFault.Kind.DELETED,
    State.TRUNCATED: ArchiveFault.Kind.TRUNCATED,
    State.DAMAGED: ArchiveFault.Kind.DAMAGED,
}
# Largest number of faults that a verification stores. Further faults are only counted.
_STORED: Final = 100_000
_Fault = ArchiveFault


@dataclass(slots=True)
class Check:
    """The check of one file, with its faults."""

    file: ArchiveFile
    repairs: bool
    lost_machine: str = ""
    found: list[ArchiveFault] = field(default_factory=list)
    records: int = 0
    skipped: int = 0

    def add(self, kind: ArchiveFault.Kind, *, place: str = "", result: str = "") -> None:
        self.found.append(ArchiveFault(kind=kind, path=self.file.path, place=place, result=result))


def check_file(verification: ArchiveVerification, file: ArchiveFile) -> None:
    """
    Compare a file with its copies and its rows, repair it if the verification repairs, and store the result.

    Raises:
        AnotherAttempt: another attempt carries out the verification.
    """
    # Read again, because the verification may have read the row hours ago.
    file.refresh_from_db()
    check = Check(file, verification.repairs, verification.lost_machine)
    if file.state != FileState.LOST:
        rows = [
            Row(*row)
            for row in ArchiveRecord.objects.filter(file=file, is_lost=False)
            .order_by("offset")
            .values_list("id", "offset", "kind", "digest")
        ]
        check.records = len(rows)
        seen = _inspect(file, lost_machine=verification.lost_machine)
        if file.removed_at is None and ArchiveFile.objects.filter(pk=file.pk, removed_at__isnull=False).exists():
            # A worker removed the local copy meanwhile, by its policy.
            seen = seen[1:]
        check.skipped = sum(one.state is State.UNREACHABLE for one in seen)
        whole = next((one for one in seen if one.state is State.WHOLE), None)
        if whole is not None:
            _repair_copies(check, seen, whole)
            _compare_rows(check, whole, rows)
        elif file.sha256 == "":
            _check_unfinished(check, seen, rows)
        elif check.skipped:
            for one in seen:
                if one.state in _FAULTS:
                    check.add(_FAULTS[one.state], place=one.place, result=NO_WHOLE_COPY if check.repairs else "")
        else:
            _save_remaining_records(check, seen, rows)
    _store(verification, check)


def _inspect(file: ArchiveFile, *, lost_machine: str) -> list[InspectedCopy]:
    """Return the copies that should exist, the local one first. A lost machine has none."""
    seen = []
    if file.removed_at is None:
        place = f"{file.host}:{file.root}"
        if file.host == lost_machine:
            seen.append(InspectedCopy(place, None, State.DELETED))
        elif file.host == socket.gethostname():
            seen.append(inspect_local(place, Path(file.root), file.path, length=file.length, sha256=file.sha256))
        else:
            seen.append(InspectedCopy(place, None, State.UNREACHABLE))
    stores = sorted(file.stores)
    return [*seen, *(inspect_stored(one, file.path, length=file.length, sha256=file.sha256) for one in stores)]


def _repair_copies(check: Check, seen: Sequence[InspectedCopy], whole: InspectedCopy) -> None:
    """Replace the copies that are not whole by a whole one."""
    for one in seen:
        if one.state in _FAULTS:
            check.add(_FAULTS[one.state], place=one.place, result=_write(check, one, whole) if check.repairs else "")


def _write(check: Check, target: InspectedCopy, whole: InspectedCopy) -> str:
    """Write a copy again, and return the result."""
    file = check.file
    assert whole.copy is not None
    try:
        if target.place in file.stores:
            write_stored(whole.copy, target.place, file.path, sha256=whole.sha256, folder=Path(file.root))
        elif check.lost_machine == file.host or file.host != socket.gethostname():
            file.removed_at = read_clock()
            file.save(update_fields=["removed_at"])
            return NOT_KEPT
        else:
            write_local(whole.copy, Path(file.root) / file.path, sha256=whole.sha256)
    except (OSError, StoreError) as error:
        return f"not written: {error}"
    return WRITTEN


def _compare_rows(check: Check, whole: InspectedCopy, rows: Sequence[Row]) -> None:
    """Compare the records of a whole copy with the rows."""
    compared = _compare(check, whole, rows)
    if compared is None:
        return
    _mark_records_lost(check, compared.bad)
    if compared.surplus is not None and compared.surplus != check.file.surplus:
        check.add(_Fault.Kind.NO_ROW, result=ACCEPTED if check.repairs else "")
        if check.repairs:
            check.file.surplus = compared.surplus
            check.file.save(update_fields=["surplus"])


def _check_unfinished(check: Check, seen: Sequence[InspectedCopy], rows: Sequence[Row]) -> None:
    """Check a file that no worker has ended or read yet, so that only its rows show its expected content."""
    for one in seen:
        if one.state is State.DELETED:
            check.add(_Fault.Kind.DELETED, place=one.place, result=MARKED_LOST)
            _mark_file_lost(check)
        elif one.copy is not None:
            compared = _compare(check, one, rows)
            bad = [] if compared is None else compared.bad
            if bad and len(bad) == len(rows):
                check.add(_Fault.Kind.DAMAGED, place=one.place, result=MARKED_LOST)
                _mark_file_lost(check)
            else:
                _mark_records_lost(check, bad)


def _save_remaining_records(check: Check, seen: Sequence[InspectedCopy], rows: Sequence[Row]) -> None:
    """
    Mark the records as lost that the best copy lacks: the copy that lacks the fewest records. With a repair, it replaces the other copies.
    """
    compared = []
    for one in seen:
        if one.has_content:
            found = _compare(check, one, rows)
            if found is None:
                # The copy cannot be read now, so nothing is known to be lost.
                return
            compared.append((one, found))
    best = min(compared, key=lambda pair: len(pair[1].bad), default=None)
    if best is None or (rows and len(best[1].bad) == len(rows)):
        for one in seen:
            check.add(_FAULTS[one.state], place=one.place, result=MARKED_LOST)
        _mark_file_lost(check)
        return
    copy, found = best
    for one in seen:
        result = ""
        if check.repairs:
            result = KEPT_OTHERS if one is copy else _write(check, one, copy)
        check.add(_FAULTS[one.state], place=one.place, result=result)
    _mark_records_lost(check, found.bad)
    if check.repairs:
        file = check.file
        file.sha256, file.length = copy.sha256, copy.size
        file.problem = f"{len(found.bad)} records are lost."
        file.surplus = found.surplus or 0
        file.save(update_fields=["sha256", "length", "problem", "surplus"])


def _compare(check: Check, seen: InspectedCopy, rows: Sequence[Row]) -> Compared | None:
    """Return the rows without their record in a copy, or None if the copy can no longer be read."""
    assert seen.copy is not None
    try:
        return compare(seen.copy, rows, form=Format(check.file.format))
    except (OSError, StoreError):
        check.skipped += 1
        return None


def _mark_records_lost(check: Check, bad: Sequence[Row]) -> None:
    """Mark the records of these rows as lost."""
    if bad:
        archived.lose_records(_driver(), [row.id for row in bad])
        for row in bad:
            check.add(_Fault.Kind.NO_RECORD, place=f"offset {row.offset}", result=MARKED_LOST)


def _mark_file_lost(check: Check) -> None:
    why = "A verification found no copy that could be read."
    archived.lose_file(_driver(), check.file.pk, why=why, now=read_clock())


def _driver() -> psycopg.Connection[Any]:
    """Return the driver's connection of Django."""
    connection.ensure_connection()
    driver: psycopg.Connection[Any] = connection.connection
    return driver


def _store(verification: ArchiveVerification, check: Check) -> None:
    """Store the faults, with the documents whose body is lost. With a repair, schedule these documents."""
    documents = archived.read_without_body(_driver(), [check.file.pk])
    scheduled = set()
    if check.repairs:
        scheduled = archived.read_again(_driver(), documents, now=read_clock())
    for document in documents:
        result = ""
        if (document.hash, document.job_id) in scheduled:
            result = READ_AGAIN
        elif check.repairs:
            result = CLAIMED if document.is_claimed else NOT_NOW
        check.found.append(
            ArchiveFault(
                kind=_Fault.Kind.LOST,
                path=check.file.path,
                job_id=document.job_id,
                hash=uuid.UUID(document.hash),
                identifier=document.identifier,
                result=result,
            )
        )
    store_found(verification, check.found, cursor=check.file.pk, files=1, records=check.records, skipped=check.skipped)


@transaction.atomic
def store_found(
    verification: ArchiveVerification,
    found: Sequence[ArchiveFault],
    *,
    cursor: int | None = None,
    files: int = 0,
    records: int = 0,
    skipped: int = 0,
) -> None:
    """
    Store faults with their counts.

    Raises:
        AnotherAttempt: another attempt carries out the verification.
    """
    for fault in found:
        fault.verification = verification
    ArchiveFault.objects.bulk_create(found[: max(0, _STORED - verification.faults)])
    counts = Counter(fault.kind for fault in found)
    repaired = sum(fault.result in DONE for fault in found)
    note(
        verification,
        **({} if cursor is None else {"cursor": cursor}),
        files=F("files") + files,
        records=F("records") + records,
        skipped=F("skipped") + skipped,
        repaired=F("repaired") + repaired,
        **{kind.value: F(kind.value) + counts[kind] for kind in ArchiveFault.Kind},
    )
