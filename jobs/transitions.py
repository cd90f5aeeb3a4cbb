"""
The one place where a job's state changes.

Every change is a row of the lifecycle's table. The job's row stays locked while we look and write, so
of two processes that try at the same instant one wins and the other is refused. Whoever works for the
job holds the same row shared in his own transactions (`jobs.queue.stuff`), so when a change has
committed nobody can still hand out work on the strength of the old state.
"""

import datetime as dt
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection, transaction

from jobs import channels, journal
from jobs.deleted_jobs import bury
from jobs.lifecycle.activity import OF_TRANSITIONS
from jobs.lifecycle.job import TRANSITIONS, JobState, allowed_transitions, is_possible, situation_of
from jobs.lifecycle.table import Owner
from jobs.models import Job
from nodes.fences import TermHeld, hold_term
from nodes.lifecycle import CLUSTER_SCOPE

logger: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StateChange:
    """A transition that was made: from which state to which."""

    job: Job
    name: str
    before: JobState
    after: JobState


class TransitionRefused(Exception):
    """The job was not in a state from which this transition may be made."""

    def __init__(self, job: Job, name: str) -> None:
        self.job_id, self.name, self.state = job.pk, name, job.status
        self.allowed = [row.verb for row in allowed_transitions(job.state, owner=Owner.OPERATOR)]
        now_possible = ", ".join(self.allowed) or "none (the job continues by itself)"
        super().__init__(f"Job {job.name} cannot {name} while it is “{job.status}”. Possible now: {now_possible}.")


class JobUnknown(Exception):
    """There is no such job (any more)."""

    def __init__(self, job_id: int) -> None:
        self.job_id = job_id
        super().__init__(f"Job {job_id} does not exist.")


def make_transition(
    job_id: int,
    name: str,
    *,
    made_by: str,
    now: dt.datetime,
    facts: Mapping[str, Any] | None = None,
    reason: str = "",
    term: TermHeld | None = None,
) -> StateChange:
    """
    Move a job along one row of the lifecycle's table and record the move.

    `facts` are other columns of the job that change with it. `reason` is shown beside its status; without
    one nothing is, unless the row keeps what was. A main gives its `term`, which is its fence.

    Raises:
        FenceRefused: the term is no longer the main's.
        TransitionRefused: the job is not in a state this transition may start from.
        JobUnknown: there is no such job.
    """
    with transaction.atomic():
        job = _hold(job_id, name, term=term)
        row, before = TRANSITIONS[name], job.state
        # Where it stands now, its schedule may say something else.
        changes = {"schedule_due_at": None, **row.becomes_from(situation_of(before)), **(facts or {})}
        if reason or not row.keeps_reason:
            changes["reason"] = reason
        for column, value in changes.items():
            setattr(job, column, value)
        job.save(update_fields=list(changes))
        _tell(job, name, reason=reason, code=str(changes.get("run_end", "")), made_by=made_by, now=now)
    return StateChange(job=job, name=name, before=before, after=job.state)


def drop_job(job_id: int, *, made_by: str, now: dt.datetime, term: TermHeld) -> None:
    """
    Let a job go of which nothing is left but itself: the last row of its lifecycle.

    Raises:
        FenceRefused, TransitionRefused, JobUnknown: as above.
    """
    with transaction.atomic():
        job = _hold(job_id, "go", term=term)
        _tell(job, "go", reason="", code="", made_by=made_by, now=now)
        bury(job, now=now)
        job.delete()


def _hold(job_id: int, name: str, *, term: TermHeld | None) -> Job:
    """Lock a job in a state from which this transition may be made."""
    if term is not None:
        hold_term(connection.connection, term)
    job = Job.objects.select_for_update(no_key=True).filter(pk=job_id).first()
    if job is None:
        raise JobUnknown(job_id)
    if not is_possible(TRANSITIONS[name], job.state):
        raise TransitionRefused(job, name)
    return job


def _tell(job: Job, name: str, *, reason: str, code: str, made_by: str, now: dt.datetime) -> None:
    """Write the move into the journal and the history, and wake whoever works for the job."""
    says = TRANSITIONS[name].says
    message = f"{says}: {reason}" if reason else says
    journal.record(job, kind=name.replace(" ", "_"), message=message, made_by=made_by, now=now)
    if activity := OF_TRANSITIONS.get(name):
        journal.remember(job, activity=activity, code=code, description=reason, now=now)
    if job.node_scope == CLUSTER_SCOPE:
        # A one-shot prints the states of its job itself.
        facts = {"job": job.pk, "run": job.run_no}
        sentence = f"{message} ({code})" if code else message
        transaction.on_commit(lambda: logger.info("job %s: %s", job.name, sentence, extra=facts))
    # Rare, and whoever works for the job should know at once: inside the transaction.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", (channels.CONTROL, str(job.pk)))
