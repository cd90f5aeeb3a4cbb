"""
The verbs of jobs: all operations of operators that move a job through its lifecycle.

Pages, the REST API and commands call these functions, and derive their buttons, actions and words from `VERBS`.

Functions take keywords, the author (`made_by`) and `now`. They return the result and raise errors whose messages can
be shown as they are.
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from django.db import connection

from jobs.models import Job
from jobs.queue.send_back import SentBack, send_back
from jobs.queue.wake import wake_job
from jobs.state import journal
from jobs.state.runs import ask_for_run
from jobs.state.transitions import StateChange, TransitionRefused, make_transition
from nodes.errors import Unknown

# A job that failed to start gets all its attempts again.
_AS_NEW: Final = {"failures": 0, "failing_since": None, "retry_at": None}


def start(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Request a run, which the main manager prepares. It has no window: a run that was started by hand never waits."""
    return ask_for_run(job_id, "start", made_by=made_by, now=now, facts={"window_ends_at": None})


def start_minimal(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Request a run that reads only documents reported as changed, and removes none because it did not reach them."""
    return ask_for_run(job_id, "start minimal", made_by=made_by, now=now, facts={"window_ends_at": None})


def pause(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Stop handing out documents; the job is paused when its documents in flight have ended."""
    return make_transition(job_id, "pause", made_by=made_by, now=now)


def resume(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Continue a paused job; outside its window it continues when the window opens."""
    return make_transition(job_id, "resume", made_by=made_by, now=now)


def abort(job_id: int, *, made_by: str, now: dt.datetime, reason: str = "") -> StateChange:
    """End the run before it is finished: documents that it did not reach stay."""
    facts = {"retry_at": None, "schedule_checked_at": now}
    return make_transition(job_id, "abort", made_by=made_by, now=now, facts=facts, reason=reason)


def restart(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """End the run as `abort` does, and start the next one at once."""
    return make_transition(job_id, "restart", made_by=made_by, now=now, facts=_AS_NEW)


def restart_minimal(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """End the run as `abort` does, and start a minimal one at once."""
    return make_transition(job_id, "restart minimal", made_by=made_by, now=now, facts=_AS_NEW)


def reset_seeding(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Let the next run read the source as if for the first time."""
    return make_transition(job_id, "reset seeding", made_by=made_by, now=now, facts={"from_the_beginning": True})


def delete(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Delete the job, its documents, and documents that only it keeps in its outputs."""
    return make_transition(job_id, "delete", made_by=made_by, now=now, facts=_AS_NEW)


def allow_removals(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Let the clean-up remove the documents that the delete guard held back: the last run did not reach them."""
    connection.ensure_connection()
    # This precedes the transition: until then no stuffer reads the lanes, and after it they must not sleep.
    wake_job(connection.connection, job_id=job_id, now=now)
    return make_transition(job_id, "allow removals", made_by=made_by, now=now, facts=_AS_NEW)


def refuse_removals(job_id: int, *, made_by: str, now: dt.datetime) -> StateChange:
    """Keep the documents that the delete guard held back. The next run searches for them again."""
    return make_transition(job_id, "refuse removals", made_by=made_by, now=now)


def send_back_failed(job_id: int, *, codes: Sequence[str] = (), made_by: str, now: dt.datetime) -> SentBack:
    """
    Make documents due again that failed in the job's run with one of these codes, or with any.

    In an active job they are due at once. An inactive job reads them in its next run, unless that is a full one,
    which reads all documents that it reaches anyway.

    Raises:
        Unknown: the job does not exist.
        TransitionRefused: the job is neither active nor inactive.
    """
    connection.ensure_connection()
    sent = send_back(connection.connection, job_id=job_id, codes=codes, now=now)
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


class Verb(NamedTuple):
    """An operation of an operator: its function, and the permission for it."""

    perform: Callable[..., StateChange]
    permission: str


# All transitions that the lifecycle's table gives to operators, by their verb.
VERBS: Final[Mapping[str, Verb]] = {
    "start": Verb(start, "jobs.control_job"),
    "start-minimal": Verb(start_minimal, "jobs.control_job"),
    "pause": Verb(pause, "jobs.control_job"),
    "resume": Verb(resume, "jobs.control_job"),
    "abort": Verb(abort, "jobs.control_job"),
    "restart": Verb(restart, "jobs.control_job"),
    "restart-minimal": Verb(restart_minimal, "jobs.control_job"),
    "reset-seeding": Verb(reset_seeding, "jobs.control_job"),
    "delete": Verb(delete, "jobs.delete_job"),
    "allow-removals": Verb(allow_removals, "jobs.control_job"),
    "refuse-removals": Verb(refuse_removals, "jobs.control_job"),
}
