"""
The only place where a job's state changes.

Each change is a row of the lifecycle's table. The job's row is locked from the check to the write, so of two
concurrent attempts one succeeds and the other is refused. A process that works for the job holds the same row shared
in its own transactions (`jobs.queue.offering.stuff`). So once a change has committed, no process can hand out work by
the old state.
"""

import datetime as dt
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection, transaction
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from jobs.lifecycle.activity import OF_TRANSITIONS
from jobs.lifecycle.job import TRANSITIONS, JobState, Phase, allowed_transitions, is_possible, situation_of
from jobs.lifecycle.table import Owner
from jobs.models import Job
from jobs.state import channels, journal, trap_rules
from jobs.state.deleted_jobs import store_deleted_job
from jobs.state.run_rows import end_row
from nodes.errors import Refused, Unknown
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership.fences import TermHeld, hold_term

logger: Final = logging.getLogger(__name__)

# Transitions after which documents are removed or seeds are read. They wait while slots move between partitions.
_NOT_WHILE_SLOTS_MOVE: Final = frozenset({"prepare", "begin reseeding", "shut down", "allow removals", "delete"})


@dataclass(frozen=True, slots=True)
class StateChange:
    """A transition that was made, with the states before and after it."""

    job: Job
    name: str
    before: JobState
    after: JobState


class TransitionRefused(Refused):
    """The transition is not possible from the job's state. `allowed` has the names of the possible transitions."""

    code = "transition_refused"

    def __init__(self, job: Job, name: str) -> None:
        self.job_id, self.name, self.state = job.pk, name, job.status
        possible = allowed_transitions(job.state, owner=Owner.OPERATOR)
        self.allowed = [row.verb for row in possible]
        facts = {
            "job": job.name,
            "transition": _in_words(name),
            "state": _(job.status),
            "possible": ", ".join(_in_words(row.name) for row in possible) or _("none (the job continues by itself)"),
        }
        super().__init__(
            _("Job %(job)s cannot %(transition)s while it is “%(state)s”. Possible now: %(possible)s.") % facts
        )


class SlotsMove(TransitionRefused):
    """The transition must wait until slots have moved between partitions."""

    code = "slots_move"

    def __init__(self, job: Job, name: str) -> None:
        super().__init__(job, name)
        sentence = _(
            "Job %(job)s cannot %(transition)s while slots move between partitions. "
            "Try again after the move, which `crawlctl partition list` shows."
        )
        self.args = (sentence % {"job": job.name, "transition": _in_words(name)},)


def _in_words(name: str) -> str:
    """
    Return the label of a transition in the language of the page. In English, it is the word that commands and the API
    expect.
    """
    row = TRANSITIONS.get(name)
    if row is None or not row.label:
        return name
    return row.verb if (get_language() or "en").startswith("en") else _(row.label)


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
    Make a transition of the lifecycle's table, record it, and return it.

    `facts` are other columns of the job that change with it. `reason` is shown with the status of the job. Without a
    `reason`, the status has none, unless the table's row keeps the old reason. A main manager passes its `term`, which
    is its fence.

    Raises:
        FenceRefused: the term is no longer the main manager's.
        TransitionRefused: the transition is not possible from the job's state.
        Unknown: the job does not exist.
    """
    with transaction.atomic():
        job = _hold(job_id, name, term=term)
        row, before = TRANSITIONS[name], job.state
        # A check of the schedule is due immediately (null), because it may have another result in the new state.
        changes = {"schedule_due_at": None, **row.values_from(situation_of(before)), **(facts or {})}
        if reason or not row.keeps_reason:
            changes["reason"] = reason
        for column, value in changes.items():
            setattr(job, column, value)
        job.save(update_fields=list(changes))
        if job.phase == Phase.INACTIVE:
            trap_rules.apply_waiting_rules(job, now=now)
        if changes.get("ended_at") is not None:
            end_row(job, now=now)
        detail = {"to": situation_of(job.state)}
        code = str(changes.get("run_end", ""))
        _publish(job, name, reason=reason, code=code, made_by=made_by, now=now, detail=detail)
    return StateChange(job=job, name=name, before=before, after=job.state)


def drop_job(job_id: int, *, made_by: str, now: dt.datetime, term: TermHeld) -> None:
    """
    Delete the row of a job at the end of its lifecycle, when no other rows of the job are left.

    Raises:
        FenceRefused, TransitionRefused, Unknown: as `make_transition`.
    """
    with transaction.atomic():
        job = _hold(job_id, "go", term=term)
        _publish(job, "go", reason="", code="", made_by=made_by, now=now)
        store_deleted_job(job, now=now)
        job.delete()


def lock_job(job_id: int) -> Job:
    """
    Lock a job's row until the end of the transaction, and return it.

    Raises:
        Unknown: the job does not exist.
    """
    job = Job.objects.select_for_update(no_key=True).filter(pk=job_id).first()
    if job is None:
        raise Unknown("job", job_id)
    return job


def _hold(job_id: int, name: str, *, term: TermHeld | None) -> Job:
    """
    Lock the row of a job and return it. Raise TransitionRefused or SlotsMove if this transition is not possible now.
    """
    if term is not None:
        hold_term(connection.connection, term)
    job = lock_job(job_id)
    if not is_possible(TRANSITIONS[name], job.state):
        raise TransitionRefused(job, name)
    if job.move_hold and name in _NOT_WHILE_SLOTS_MOVE:
        raise SlotsMove(job, name)
    return job


def _publish(
    job: Job,
    name: str,
    *,
    reason: str,
    code: str,
    made_by: str,
    now: dt.datetime,
    detail: dict[str, Any] | None = None,
) -> None:
    """Write the change into the journal and the history, and notify the processes that work for the job."""
    sentence = TRANSITIONS[name].message
    message = f"{sentence}: {reason}" if reason else sentence
    journal.record(job, kind=TRANSITIONS[name].kind, message=message, made_by=made_by, now=now, detail=detail)
    if activity := OF_TRANSITIONS.get(name):
        journal.remember(job, activity=activity, code=code, description=reason, now=now)
    if job.node_scope == CLUSTER_SCOPE:
        # Not logged for the job of a one-shot: its command prints the states itself.
        facts = {"job": job.pk, "run": job.run_no}
        sentence = f"{message} ({code})" if code else message
        transaction.on_commit(lambda: logger.info("job %s: %s", job.name, sentence, extra=facts))
    # Inside the transaction, because changes of jobs are rare, and processes must learn of them immediately.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", (channels.CONTROL, str(job.pk)))
