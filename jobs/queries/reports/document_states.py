"""
States of documents, in the words of ManifoldCF's status reports.

A document has one *state* (its result so far) and one *status* (its next step). Both follow from its row and its
job's (`jobs.lifecycle.document`). Both are defined twice: as conditions, for statements that filter and count, and as
functions of one row, for display. A test compares the conditions with the functions, and both with the name that
ManifoldCF has for the state of such a row.
"""

import datetime as dt
import enum
from dataclasses import dataclass
from typing import Final

from jobs.lifecycle.document import Action, Stage
from jobs.lifecycle.job import Kind, Phase, Scan
from jobs.queue.sql.stages import PENDING_OR_DONE

# Phases of a job in which its unclaimed documents wait for their removal.
_DELETE_PHASES: Final = (
    Phase.DELETE_STARTING_UP,
    Phase.DELETING,
    Phase.READY_FOR_DELETE_NOTIFY,
    Phase.NOTIFYING_OF_DELETION,
)


class State(enum.StrEnum):
    """The result of a document so far."""

    NEVER_PROCESSED = "never_processed"
    PROCESSED = "previously_processed"
    BEING_REMOVED = "being_removed"
    OUT_OF_SCOPE = "out_of_scope"


class Status(enum.StrEnum):
    """The present or next step of a document."""

    INACTIVE = "inactive"
    PROCESSING = "processing"
    EXPIRING = "expiring"
    DELETING = "deleting"
    READY_FOR_PROCESSING = "ready_for_processing"
    READY_FOR_EXPIRATION = "ready_for_expiration"
    WAITING_FOR_PROCESSING = "waiting_for_processing"
    WAITING_FOR_EXPIRATION = "waiting_for_expiration"
    WAITING_FOREVER = "waiting_forever"
    HOPCOUNT_EXCEEDED = "hopcount_exceeded"


@dataclass(frozen=True, slots=True)
class Facts:
    """
    The values that decide the state of a document, from its row and from the row of its job. `recurs` is True if the
    job is continuous.
    """

    stage: Stage
    indexed_before: bool
    is_of_this_run: bool
    scan: Scan
    phase: Phase
    action: Action
    has_number: bool
    check_time: dt.datetime | None
    recurs: bool


def state_of(facts: Facts) -> State:
    if _is_being_removed(facts):
        return State.BEING_REMOVED
    if facts.stage == Stage.HOPCOUNT_REMOVED:
        return State.OUT_OF_SCOPE
    return State.PROCESSED if facts.indexed_before or facts.stage == Stage.DONE else State.NEVER_PROCESSED


def status_of(facts: Facts, *, now: dt.datetime) -> Status:
    """Return the status at `now`, which may be in the future, for a forecast of ready documents."""
    if _is_being_removed(facts):
        return Status.DELETING
    expires = facts.action == Action.EXPIRE
    match facts.stage:
        case Stage.HOPCOUNT_REMOVED:
            return Status.HOPCOUNT_EXCEEDED
        case Stage.ACTIVE:
            return Status.EXPIRING if expires else Status.PROCESSING
        case Stage.PENDING | Stage.DONE if _is_queued(facts):
            # A pending document without a time waits behind a gate.
            if not facts.has_number and facts.check_time is None and facts.stage == Stage.DONE:
                return Status.WAITING_FOREVER
            if facts.has_number or (facts.check_time is not None and facts.check_time <= now):
                return Status.READY_FOR_EXPIRATION if expires else Status.READY_FOR_PROCESSING
            return Status.WAITING_FOR_EXPIRATION if expires else Status.WAITING_FOR_PROCESSING
        case Stage.DONE if not facts.is_of_this_run and facts.scan == Scan.RECHECK:
            return Status.READY_FOR_PROCESSING
        case _:
            return Status.INACTIVE


def _is_queued(facts: Facts) -> bool:
    """
    True for pending documents and waiting documents of a continuous job. Such a document has a next time, which may be
    never.
    """
    if facts.stage == Stage.DONE:
        return facts.recurs and facts.is_of_this_run
    return facts.is_of_this_run or facts.scan != Scan.FULL


def _is_being_removed(facts: Facts) -> bool:
    return facts.stage in {Stage.BEING_CLEANED, Stage.BEING_DELETED} or (
        facts.phase in _DELETE_PHASES and facts.stage in {Stage.PENDING, Stage.DONE}
    )


# --- The same as conditions on `item` and its `job` ------------------------------------------------

_PENDING, _ACTIVE, _DONE = (f"item.stage = {stage:d}" for stage in (Stage.PENDING, Stage.ACTIVE, Stage.DONE))
_DELETED: Final = "job.phase IN (" + ", ".join(f"'{phase}'" for phase in _DELETE_PHASES) + ")"
_REMOVED: Final = (
    f"(item.stage IN ({Stage.BEING_CLEANED:d}, {Stage.BEING_DELETED:d})"
    f" OR (item.stage IN {PENDING_OR_DONE} AND {_DELETED}))"
)
_OUT_OF_SCOPE: Final = f"item.stage = {Stage.HOPCOUNT_REMOVED:d}"
_EXPIRES: Final = f"item.action = {Action.EXPIRE:d}"
_PROCESSED: Final = f"item.action <> {Action.EXPIRE:d}"
_RECHECKED: Final = f"{_DONE} AND item.run_no < job.run_no AND job.scan = '{Scan.RECHECK}'"
_STANDS_BY: Final = f"item.run_no < job.run_no AND job.scan = '{Scan.FULL}'"
_RECURS: Final = f"{_DONE} AND item.run_no = job.run_no AND job.kind = '{Kind.CONTINUOUS}'"
# True for a document that is pending in a run, or waits for its next time in a continuous job.
QUEUED: Final = f"({_PENDING} AND NOT ({_STANDS_BY}) OR {_RECURS}) AND NOT {_DELETED}"
_READY: Final = f"{QUEUED} AND (item.seq IS NOT NULL OR item.check_time <= %(now)s)"
_WAITING: Final = (
    f"{QUEUED} AND item.seq IS NULL AND (item.check_time > %(now)s OR item.check_time IS NULL AND {_PENDING})"
)

STATE_CONDITIONS: Final = {
    State.NEVER_PROCESSED: f"item.stage IN ({Stage.PENDING:d}, {Stage.ACTIVE:d}) AND NOT item.indexed_before AND NOT {_REMOVED}",
    State.PROCESSED: (
        f"(item.stage IN ({Stage.PENDING:d}, {Stage.ACTIVE:d}) AND item.indexed_before OR {_DONE}) AND NOT {_REMOVED}"
    ),
    State.BEING_REMOVED: _REMOVED,
    State.OUT_OF_SCOPE: _OUT_OF_SCOPE,
}
STATUS_CONDITIONS: Final = {
    Status.INACTIVE: f"({_DONE} AND NOT ({_RECHECKED}) AND NOT ({_RECURS}) OR {_PENDING} AND {_STANDS_BY}) AND NOT {_DELETED}",
    Status.PROCESSING: f"{_ACTIVE} AND item.batch_id IS NOT NULL AND {_PROCESSED}",
    Status.EXPIRING: f"{_ACTIVE} AND item.batch_id IS NOT NULL AND {_EXPIRES}",
    Status.DELETING: _REMOVED,
    Status.READY_FOR_PROCESSING: f"({_READY} AND {_PROCESSED} OR {_RECHECKED} AND NOT {_DELETED})",
    Status.READY_FOR_EXPIRATION: f"{_READY} AND {_EXPIRES}",
    Status.WAITING_FOR_PROCESSING: f"{_WAITING} AND {_PROCESSED}",
    Status.WAITING_FOR_EXPIRATION: f"{_WAITING} AND {_EXPIRES}",
    Status.WAITING_FOREVER: f"{QUEUED} AND item.seq IS NULL AND item.check_time IS NULL AND {_DONE}",
    Status.HOPCOUNT_EXCEEDED: _OUT_OF_SCOPE,
}
