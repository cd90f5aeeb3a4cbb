"""
The verbs of jobs. A verb is an operation of an operator that moves a job through its lifecycle.

Pages, the REST API and commands call these functions, and derive their buttons, actions and words from `VERBS`.

Functions take keywords, the author (`made_by`) and `now`. They return the result and raise errors whose messages can
be shown as they are.
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, Final, ParamSpec
from uuid import UUID

from django.db import connection

from jobs.lifecycle.job import TRANSITIONS
from jobs.lifecycle.table import Transition
from jobs.models import Job
from jobs.partitions.merged import change_elsewhere, local_job
from jobs.partitions.this_partition import refuse_elsewhere
from jobs.queue.send_back import SentBack, send_back
from jobs.queue.wake import wake_job
from jobs.state import journal
from jobs.state.runs import ask_for_run
from jobs.state.transitions import StateChange, TransitionRefused, make_transition
from nodes.errors import Unknown
from nodes.lifecycle import CLUSTER_SCOPE

_P = ParamSpec("_P")


def _in_control_partition(
    verb: Callable[Concatenate[int, _P], StateChange],
) -> Callable[Concatenate[int, _P], StateChange]:
    """Wrap a verb, so that other partitions than the control partition refuse it, except for the job of a one-shot."""

    @wraps(verb)
    def checked(job_id: int, /, *args: _P.args, **kwargs: _P.kwargs) -> StateChange:
        if Job.objects.filter(pk=job_id, node_scope=CLUSTER_SCOPE).exists():
            refuse_elsewhere()
        return verb(job_id, *args, **kwargs)

    return checked


# Permission for all verbs except delete.
MAY_CONTROL: Final = "jobs.control_job"
# Columns that give a job all its attempts to start again.
_AS_NEW: Final = {"failures": 0, "failing_since": None, "retry_at": None}


@_in_control_partition
def start(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Request a run, which the main manager prepares. The run has no window, so it never waits for one."""
    return ask_for_run(job_id, "start", made_by=made_by, now=now, facts={"window_ends_at": None})


@_in_control_partition
def start_minimal(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """
    Request a run that reads only the documents that the source reports as changed. It does not remove documents that it
    did not reach.
    """
    return ask_for_run(job_id, "start minimal", made_by=made_by, now=now, facts={"window_ends_at": None})


@_in_control_partition
def pause(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Stop handing out documents. The job is paused when its documents in flight have ended."""
    return make_transition(job_id, "pause", made_by=made_by, now=now)


@_in_control_partition
def resume(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Continue a paused job. Outside of its window, it continues when the window opens."""
    return make_transition(job_id, "resume", made_by=made_by, now=now)


@_in_control_partition
def abort(job_id: int, *, made_by: str, now: dt.datetime, reason: str = "") -> StateChange:
    """End the run before it is finished. Documents that it did not reach stay."""
    facts = {"retry_at": None, "schedule_checked_at": now}
    return make_transition(job_id, "abort", made_by=made_by, now=now, facts=facts, reason=reason)


@_in_control_partition
def restart(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """End the run as `abort` does, and start the next one immediately."""
    return make_transition(job_id, "restart", made_by=made_by, now=now, facts=_AS_NEW)


@_in_control_partition
def restart_minimal(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """End the run as `abort` does, and start a minimal one immediately."""
    return make_transition(job_id, "restart minimal", made_by=made_by, now=now, facts=_AS_NEW)


def reset_seeding(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Let the next run read the source as if for the first time."""
    return make_transition(job_id, "reset seeding", made_by=made_by, now=now, facts={"from_the_beginning": True})


@_in_control_partition
def delete(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Delete the job with its documents. Outputs keep a document only if another job has it, too."""
    return make_transition(job_id, "delete", made_by=made_by, now=now, facts=_AS_NEW)


@_in_control_partition
def allow_removals(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Let the clean-up remove the documents that the last run did not reach, and that the delete guard held back."""
    connection.ensure_connection()
    # The lanes are woken before the transition: they must be awake after it, and no manager reads them before it.
    wake_job(connection.connection, job_id=job_id, now=now)
    return make_transition(job_id, "allow removals", made_by=made_by, now=now, facts=_AS_NEW)


@_in_control_partition
def refuse_removals(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Keep the documents that the delete guard held back from removal. The next run searches for them again."""
    return make_transition(job_id, "refuse removals", made_by=made_by, now=now)


@dataclass(frozen=True, slots=True)
class SentBackEverywhere:
    """
    The number of documents that were sent back. `has_more` is True if one call cannot send back all.

    A partition is `left_out` if it did not answer, or if the job starts or ends there.
    """

    documents: int
    has_more: bool
    left_out: Sequence[str] = ()


def send_back_failed(
    job_id: int,
    *,
    codes: Sequence[str] = (),
    documents: Sequence[UUID] | None = None,
    made_by: str,
    now: dt.datetime,
) -> SentBackEverywhere:
    """
    Make documents due again that failed in the job's run with one of these codes, or with any.

    With `documents`, only the documents with these keys may be sent back. Without it, all documents of the job may be,
    and in the control partition also those in other partitions.

    In an active job, these documents are due immediately. An inactive job reads them in its next run. (A full run reads
    all documents that it reaches anyway.)

    Raises:
        Unknown: the job does not exist.
        TransitionRefused: the job is neither active nor inactive.
    """

    def send(number: int) -> SentBack:
        return _send_back_here(number, codes=codes, documents=documents, made_by=made_by, now=now)

    sent = send(job_id)
    if documents is not None:
        return SentBackEverywhere(sent.documents, sent.has_more)

    def elsewhere(_name: str) -> SentBack | None:
        local = local_job(job_id)
        try:
            return SentBack(0, has_more=False) if local is None else send(local)
        except TransitionRefused:
            return None

    asked = change_elsewhere(elsewhere)
    parts = [sent, *(part for part in asked.others.values() if part is not None)]
    left_out = [one.name for one in asked.silent] + [name for name, part in asked.others.items() if part is None]
    return SentBackEverywhere(
        sum(part.documents for part in parts), any(part.has_more for part in parts), tuple(sorted(left_out))
    )


def _send_back_here(
    job_id: int, *, codes: Sequence[str], documents: Sequence[UUID] | None, made_by: str, now: dt.datetime
) -> SentBack:
    """Send documents back in the partition whose database this thread uses."""
    connection.ensure_connection()
    sent = send_back(connection.connection, job_id=job_id, codes=codes, documents=documents, now=now)
    job = Job.objects.filter(pk=job_id).first()
    if job is None:
        raise Unknown("job", job_id)
    if sent is None:
        raise TransitionRefused(job, "send back")
    if sent.documents:
        about = ", ".join(codes) or "any code"
        message = f"{sent.documents:,} documents that failed ({about}) were sent back"
        journal.record(job, kind="sent back", message=message, made_by=made_by, now=now)
    return sent


@dataclass(frozen=True, slots=True)
class Verb:
    """
    An operation of an operator on a job: its transition in the lifecycle's table, its function, a sentence about its
    effect, and the permission that it needs.
    """

    transition: Transition
    perform: Callable[..., StateChange]
    effect: str
    permission: str = MAY_CONTROL

    @property
    def name(self) -> str:
        """Return the name of the verb in commands and in paths of the API."""
        return self.transition.verb

    @property
    def label(self) -> str:
        """Return the label of the button of this verb."""
        return self.transition.label


def _table(*verbs: Verb) -> Mapping[str, Verb]:
    return {verb.name: verb for verb in verbs}


# All transitions that the lifecycle's table gives to operators, by their verb.
VERBS: Final = _table(
    Verb(TRANSITIONS["start"], start, "Start a run."),
    Verb(
        TRANSITIONS["start minimal"],
        start_minimal,
        "Start a minimal run, which reads only documents that the source reports as changed. It removes no unreached documents.",
    ),
    Verb(TRANSITIONS["pause"], pause, "Pause the run."),
    Verb(TRANSITIONS["resume"], resume, "Resume the paused run."),
    Verb(TRANSITIONS["abort"], abort, "Abort the run. Nothing is removed."),
    Verb(TRANSITIONS["restart"], restart, "Abort the run, then start the next one."),
    Verb(TRANSITIONS["restart minimal"], restart_minimal, "Abort the run, then start a minimal one."),
    Verb(
        TRANSITIONS["reset seeding"],
        reset_seeding,
        "Let the next run read the whole source, as in the first run.",
    ),
    Verb(
        TRANSITIONS["delete"],
        delete,
        "Delete the job, its documents, and its content in the outputs. The job disappears when that is complete.",
        permission="jobs.delete_job",
    ),
    Verb(TRANSITIONS["allow removals"], allow_removals, "Allow the removals that wait for approval."),
    Verb(
        TRANSITIONS["refuse removals"],
        refuse_removals,
        "Refuse the removals that wait for approval. The next run looks for these documents again.",
    ),
)
