"""Operations of operators: the verification of all archives, in this process or by a background task."""

import hashlib
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar

from django.db import transaction
from django.db.models.functions import Now

from jobs.loops.worker.archives import archive_root
from jobs.models import ArchiveFile, ArchiveVerification
from jobs.partitions import this_partition
from jobs.settings.archives import ARCHIVE_STORES
from jobs.verbs.control import MAY_CONTROL
from jobs.verification.all_partitions import Begun, begin
from jobs.verification.archives.checking import check_file
from jobs.verification.archives.foreign_files import check_foreign
from jobs.verification.attempts import ShouldContinue, begin_attempt, note
from nodes.errors import Invalid, NotAllowed, Refused
from nodes.lifecycle import NodeStatus
from nodes.membership.changes import record_request
from nodes.models import Node
from nodes.permissions import May, may_do_everything
from nodes.settings.running import current
from nodes.tasks import verbs
from nodes.tasks.models import Task

T = TypeVar("T")

_ALL: Final = 100
# Number of files whose rows one statement reads.
_FILES_AT_ONCE: Final = 200


def verify_archive(
    *,
    sample: float | None = None,
    repairs: bool = False,
    lost_machine: str = "",
    made_by: str,
    should_continue: ShouldContinue[ArchiveVerification] = lambda _verification: True,
) -> ArchiveVerification:
    """
    Compare the archives with their rows in this process, and return the result.

    `sample` is a share of the files in percent, None for all. If `repairs`, damaged copies are written again from whole
    ones, and documents whose body is lost are scheduled. The local copies of the `lost_machine` count as deleted. While
    it runs, `should_continue` is called with the progress; the verification ends early if the result is False.

    Raises:
        Invalid: the sample is invalid.
        Refused: a node runs on the lost machine.
    """
    verification = _create(sample=sample, repairs=repairs, lost_machine=lost_machine, made_by=made_by, task=None)
    return carry_out(verification, should_continue=should_continue)


@transaction.atomic
def start(
    *, sample: float | None = None, repairs: bool = False, lost_machine: str = "", may: May, made_by: str
) -> ArchiveVerification:
    """
    Schedule the verification of the archives as a background task.

    Raises:
        Invalid: the sample is invalid.
        NotAllowed: the user may not do this.
        Refused: a node runs on the lost machine.
    """
    _check_permission(may)
    _check(sample, lost_machine)
    given = {"sample": sample, "repair": repairs, "lost_machine": lost_machine}
    arguments = {name: value for name, value in given.items() if value}
    task = verbs.create(kind="verify_archive", arguments=arguments, made_by=made_by)
    return _create(sample=sample, repairs=repairs, lost_machine=lost_machine, made_by=made_by, task=task.pk)


def start_everywhere(
    *,
    describe: Callable[[ArchiveVerification], T],
    partition: str = "",
    with_own: bool = True,
    may: May,
    made_by: str,
    **choice: Any,
) -> Begun[T]:
    """
    Schedule the verification of the archives of each partition, or of one `partition`. Return the results of
    `describe`.

    `describe` gets each verification in the database that has it. This partition is left out unless `with_own`. The
    `choice` is passed to `start`. A lost machine concerns the partitions that have files of it.

    Raises:
        NotAllowed: the user may not do this.
        Invalid, Refused, PartitionAway: as `everywhere.begin`.
    """
    _check_permission(may)

    def own() -> T:
        return describe(start(may=may, made_by=made_by, **choice))

    def start_there() -> T:
        return describe(start(may=may_do_everything, made_by=made_by, **choice))

    return begin(partition, own=own if with_own else None, start_there=start_there)


def create_for_task(task: int, *, sample: float | None, repairs: bool, lost_machine: str = "") -> ArchiveVerification:
    """Return the verification of a task. For a task that a template made, create the verification first."""
    found = ArchiveVerification.objects.filter(task=task).first()
    if found is not None:
        return found
    made_by = Task.objects.filter(pk=task).values_list("created_by", flat=True).first() or "task"
    return _create(sample=sample, repairs=repairs, lost_machine=lost_machine, made_by=made_by, task=task)


def carry_out(
    verification: ArchiveVerification, *, should_continue: ShouldContinue[ArchiveVerification]
) -> ArchiveVerification:
    """
    Compare and repair from the last file on, and return the verification.

    Raises:
        AnotherAttempt: another attempt carries out the verification.
    """
    verification = begin_attempt(verification)
    if verification.ended_at is not None:
        return verification
    host = socket.gethostname()
    note(verification, host=host)
    for file in _files(verification):
        if not should_continue(verification):
            return verification
        with suppress(ArchiveFile.DoesNotExist):
            # A worker may have deleted the row meanwhile, because the file was never created.
            check_file(verification, file)
    # Several partitions may use the same directory or store. Then a file without a row here may belong to another one.
    if this_partition.placement() is None:
        check_foreign(verification, archive_root(), host=host, stores=current()[ARCHIVE_STORES])
    note(verification, ended_at=Now(), refused="")
    return verification


def _files(verification: ArchiveVerification) -> Iterator[ArchiveFile]:
    """Yield the chosen files behind the cursor. A file without records may not exist yet."""
    last = verification.cursor
    while some := list(ArchiveFile.objects.filter(pk__gt=last).order_by("pk")[:_FILES_AT_ONCE]):
        yield from (file for file in some if _is_chosen(verification, file))
        last = some[-1].pk


def _is_chosen(verification: ArchiveVerification, file: ArchiveFile) -> bool:
    if verification.sample is None:
        return True
    drawn = hashlib.sha256(f"{verification.pk} {file.pk}".encode()).digest()
    return int.from_bytes(drawn[:8]) < verification.sample / _ALL * 2**64


def _create(
    *, sample: float | None, repairs: bool, lost_machine: str, made_by: str, task: int | None
) -> ArchiveVerification:
    _check(sample, lost_machine)
    if repairs and task is None:
        record_request(f"{made_by} verifies and repairs the archives", made_by=made_by)
    made = ArchiveVerification.objects.create(
        task=task,
        started_by=made_by,
        sample=None if sample == _ALL else sample,
        repairs=repairs,
        lost_machine=lost_machine,
    )
    made.refresh_from_db()
    return made


def _check_permission(may: May) -> None:
    """
    Check the permission for a verification.

    Raises:
        NotAllowed: the user may not do this.
    """
    if not may(MAY_CONTROL):
        raise NotAllowed("Your role does not permit this.")


def _check(sample: float | None, lost_machine: str) -> None:
    if sample is not None and not 0 < sample <= _ALL:
        raise Invalid({"sample": ["This must be a share of the files in percent, above 0 and at most 100."]})
    if not lost_machine.isprintable():
        raise Invalid({"lost_machine": ["The name of a machine has printable characters only."]})
    if lost_machine:
        living = (
            Node.objects.filter(host=lost_machine, status=NodeStatus.RUNNING).values_list("name", flat=True).first()
        )
        if living is not None:
            raise Refused(f"The machine {lost_machine} is not lost: the node {living} runs there. Stop it first.")
        machines = _machines_with_copies()
        if lost_machine not in machines:
            known = ", ".join(machines) or "none"
            raise Invalid({"lost_machine": [f"{lost_machine} has no archive files. Machines that have some: {known}."]})


def _machines_with_copies() -> list[str]:
    return list(ArchiveFile.objects.order_by("host").values_list("host", flat=True).distinct())
