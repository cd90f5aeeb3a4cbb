"""
The repair of the documents that a verification found.

Missing and stale documents are read again without conditions. A ghost that a job keeps in the output is read again, too.
Other ghosts leave the output, unless their number is above the thresholds of the delete guard and was not allowed.

Each chunk is one transaction. It locks the documents, compares them once more, and stores the result of each.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from django.db import connection, transaction
from django.db.models import F, QuerySet
from django.utils.translation import gettext as _

from jobs.connectors.output.base import Held, Lists, Output
from jobs.connectors.output.buckets import bucket_of, ranges_of
from jobs.guard.decision import Facts, Thresholds, should_ask
from jobs.models import Fault, Job, OutputFault, OutputVerification
from jobs.partitions.placement import Placement
from jobs.queue import verified
from jobs.queue.sql.retrying import retried
from jobs.queue.wake import wake_job
from jobs.settings.table import KEEP_HISTORY
from jobs.verification.attempts import ShouldContinue, note
from jobs.verification.comparison import compare
from jobs.verification.finding import cursor_of_database
from jobs.verification.other_partitions import may_belong_elsewhere, sharing_partitions
from jobs.verification.reading import Group, read_groups
from nodes.database.clock import read_clock
from nodes.settings.running import current

_AT_ONCE: Final = 500

# Results of a repair. With one of the last five, the document is not repaired.
READ_AGAIN: Final = "read again"
REMOVED: Final = "removed"
FORGOTTEN: Final = "record deleted"
IN_ORDER: Final = "in order"
CLAIMED: Final = "claimed"
NOT_READABLE: Final = "no job can read it"
HELD_BACK: Final = "held back"
OF_ANOTHER: Final = "of another partition"
OF_TWIN: Final = "of another output"
_REPAIRED: Final = frozenset({READ_AGAIN, REMOVED, FORGOTTEN, IN_ORDER})

# Thresholds of an output without a job: those of a new job.
_DEFAULT_THRESHOLDS: Final = (5, 20)


@dataclass(slots=True)
class _Plan:
    """
    The planned changes of one chunk: the documents that jobs must read again, the records to delete, and the ghosts to
    remove.
    """

    read_again: dict[str, int] = field(default_factory=dict)
    forgotten: list[str] = field(default_factory=list)
    ghosts: list[Held] = field(default_factory=list)
    results: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def repair(
    verification: OutputVerification, output: Output, *, should_continue: ShouldContinue[OutputVerification]
) -> bool:
    """
    Repair the faults that were found, at most the requested number. Return True if nothing is left to do.

    Raises:
        OutputError: the output cannot be read, or refuses a removal.
        AnotherAttempt: another attempt carries out the verification.
    """
    assert isinstance(output, Lists)
    note(verification, question=_why_ghosts_stay(verification))
    chosen = sorted({bucket_of(hash_.hex) for hash_ in _open(verification).values_list("hash", flat=True)})
    for group in read_groups(cursor_of_database(), verification.output_id, output, chosen):
        while True:
            if not should_continue(verification):
                return False
            most = _AT_ONCE
            if verification.most is not None:
                most = min(most, verification.most - verification.repaired)
            if most <= 0:
                return True
            of_group = _open(verification).filter(hash__gte=ranges_of(group.buckets)[0][0], hash__lte=group.last)
            faults = list(of_group.order_by("hash")[:most])
            if not faults:
                break
            for job in _repair_some(verification, output, group, faults):
                wake_job(connection.connection, job_id=job, now=read_clock())
    return True


def _open(verification: OutputVerification) -> QuerySet[OutputFault]:
    return OutputFault.objects.filter(verification=verification, result="")


@retried
@transaction.atomic
def _repair_some(
    verification: OutputVerification, output: Output, group: Group, faults: Sequence[OutputFault]
) -> set[int]:
    """Repair these documents. Return the running jobs that got documents to read."""
    cursor = cursor_of_database()
    hashes = [fault.hash.hex for fault in faults]
    jobs = verified.hold_jobs(cursor, output.id)
    known = verified.read_known(cursor, output.id, hashes, locks=True)
    recorded = verified.lock_records(cursor, output.id, hashes)
    in_other_outputs = verified.read_in_other_outputs(cursor, output.id, hashes)
    held = group.listing.look(cursor, hashes)
    others = sharing_partitions(cursor.connection, output)
    plan = _Plan()
    for hash_ in hashes:
        kind = compare(recorded.get(hash_), held.get(hash_))
        if kind == Fault.GHOST and hash_ not in known and hash_ in in_other_outputs:
            result = OF_TWIN
        else:
            result = _plan(
                plan, hash_, kind, known.get(hash_), jobs, held, others, may_remove=not verification.question
            )
        plan.results[result].append(hash_)
    verified.read_again(cursor, output.id, plan.read_again, known)
    verified.forget(cursor, output.id, plan.forgotten)
    repaired = 0
    for result, of_result in plan.results.items():
        OutputFault.objects.filter(verification=verification, hash__in=of_result).update(result=result)
        repaired += len(of_result) if result in _REPAIRED else 0
    note(verification, repaired=F("repaired") + repaired)
    # This step is the last one, because the removal from a file cannot be rolled back.
    verified.remove_ghosts(
        cursor, output, plan.ghosts, known=known, keeps_history=bool(current()[KEEP_HISTORY]), now=read_clock()
    )
    verified.unlock_records(cursor, output.id, hashes)
    return {job for job in plan.read_again.values() if jobs[job] == "active"}


def _plan(
    plan: _Plan,
    hash_: str,
    kind: Fault | None,
    known: verified.Known | None,
    jobs: Mapping[int, str],
    held: Mapping[str, Held],
    others: Placement | None,
    *,
    may_remove: bool,
) -> str:
    """Add the repair of a document to the plan, and return its result."""
    if kind is None:
        return IN_ORDER
    if known is not None and known.is_claimed:
        return CLAIMED
    if kind == Fault.GHOST and known is None and may_belong_elsewhere(held[hash_].url, others):
        return OF_ANOTHER
    if kind == Fault.GHOST and (known is None or not known.is_kept):
        if not may_remove:
            return HELD_BACK
        plan.ghosts.append(held[hash_])
        return REMOVED
    if kind == Fault.MISSING and known is None:
        plan.forgotten.append(hash_)
        return FORGOTTEN
    job = verified.job_to_read(known, jobs)
    if job is None:
        return NOT_READABLE
    plan.read_again[hash_] = job
    return READ_AGAIN


def _why_ghosts_stay(verification: OutputVerification) -> str:
    """Return the reason why ghosts may not be removed, as a sentence; "" if they may."""
    if verification.allows_removals or not verification.ghost:
        return ""
    staying = verification.documents - verification.ghost
    facts = Facts(leaving=verification.ghost, staying=staying)
    if not should_ask(facts, _thresholds(verification.output_id)):
        return ""
    return _(
        "%(n)d of %(all)d documents in the output have no record (%(percent).1f %%). This is above the thresholds of the delete guard. "
        "To remove them, verify the output again and allow removals."
    ) % {"n": facts.leaving, "all": facts.leaving + facts.staying, "percent": facts.share * 100}


def _thresholds(output_id: int) -> Thresholds:
    """Return the strictest thresholds of the jobs that write to an output."""
    rows = list(Job.objects.filter(outputs=output_id).values_list("guard_percent", "guard_documents")) or [
        _DEFAULT_THRESHOLDS
    ]
    percents = [percent for percent, _ in rows if percent is not None]
    return Thresholds(
        percent=min(percents, default=None),
        host_percent=None,
        documents=min(documents for _, documents in rows),
        asks_for_seeds=False,
    )
