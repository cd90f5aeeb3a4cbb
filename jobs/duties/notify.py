"""
End notifications: outputs that request them are notified once of the end of a run, or of the deletion of a job.

A failed notification is retried for a limited time, so an unreachable output does not hold the job.
"""

from typing import Any

from django.db import transaction

from jobs.connectors.output.registry import hears_of_ends
from jobs.duties.attempts import NO_FAILURES, failed_attempt
from jobs.duties.chains import insert_chained_starts
from jobs.duties.context import Pass
from jobs.duties.moves import move
from jobs.models import OutputConnection
from jobs.queue import address_index, notifications
from jobs.queue.counting import counters
from jobs.queue.flushing import carrying
from jobs.queue.flushing.hops import forget_links
from jobs.state.transitions import TransitionRefused, drop_job
from nodes.errors import Unknown


def begin_notifying(at: Pass, job: Any) -> bool:
    """
    Begin to notify a job's outputs of its end. If no output wants to be notified, end the job immediately. Return True
    if the job changed its state.
    """
    if job.retry_at is not None and job.retry_at > at.now:
        return False
    outputs = OutputConnection.objects.filter(jobs=job.id)
    notified = [output.pk for output in outputs if hears_of_ends(output.connector)]
    if not notified:
        return _end(at, job)
    notifications.plan(at.connection, job_id=job.id, outputs=notified, again=not job.failures)
    return move(at, job.id, "notify" if job.phase == "ready_for_notify" else "notify of deletion")


def finish_notifying(at: Pass, job: Any) -> bool:
    """
    End a job whose outputs were notified, or schedule a retry of failed notifications. Return True if the job changed.
    """
    state = notifications.look(at.connection, job_id=job.id)
    if state.waiting:
        return False
    if not state.refused:
        return _end(at, job)
    later = failed_attempt(failures=job.failures, failing_since=job.failing_since, now=at.now)
    if later is None:
        return _end(at, job, reason=state.refused)
    name = "postpone notification" if job.phase == "notifying" else "postpone notification of deletion"
    return move(at, job.id, name, facts=later, reason=state.refused)


def _end(at: Pass, job: Any, *, reason: str = "") -> bool:
    if job.phase in {"ready_for_notify", "notifying"}:
        with transaction.atomic():
            facts = {**NO_FAILURES, "schedule_checked_at": at.now}
            return move(at, job.id, "end", facts=facts, reason=reason) and insert_chained_starts(at, job.id)
    return _drop(at, job.id)


def _drop(at: Pass, job_id: int) -> bool:
    """Delete a job, and the counts of its documents, which no longer exist; return True if it was deleted."""
    forget_links(at.connection, job_id=job_id)
    carrying.forget(at.connection, job_id=job_id)
    counters.forget(at.connection, job_id=job_id)
    address_index.forget(at.connection, job_id=job_id)
    try:
        drop_job(job_id, made_by="manager", now=at.now, term=at.held_term)
    except (TransitionRefused, Unknown):
        return False
    return True
