"""The beginning of a run, requested by an operator, a schedule or a restart."""

import datetime as dt
from collections.abc import Mapping

from django.db import transaction

from jobs.models import Budget
from jobs.state.run_rows import begin_row
from jobs.state.transitions import StateChange, make_transition
from nodes.errors import Invalid
from nodes.membership.fences import TermHeld


def ask_for_run(
    job_id: int,
    name: str,
    *,
    made_by: str,
    now: dt.datetime,
    facts: Mapping[str, object] | None = None,
    reason: str = "",
    term: TermHeld | None = None,
) -> StateChange:
    """
    Make a job ready for startup by the transition with this name; the main manager prepares its run.

    Raises:
        Invalid: it has no seed or no output.
        TransitionRefused, Unknown, FenceRefused: as `make_transition`.
    """
    fresh = {
        "started_at": now,
        "ended_at": None,
        "run_end": "",
        "reseed_at": None,
        "failures": 0,
        "failing_since": None,
        "retry_at": None,
        "missed_window_at": None,
    }
    with transaction.atomic():
        facts = {**fresh, **(facts or {})}
        change = make_transition(job_id, name, made_by=made_by, now=now, facts=facts, reason=reason, term=term)
        job = change.job
        if not job.seeds.filter(removed_at=None).exists():
            raise Invalid({"seeds": [f"Job {job.name} has no seed. Add one first."]})
        if not job.outputs.exists():
            raise Invalid({"outputs": [f"Job {job.name} has no output. Choose one first."]})
        begin_row(job, made_by=made_by, now=now)
        Budget.objects.filter(job=job).delete()
        if job.max_documents is not None:
            Budget.objects.create(job=job, run_no=job.run_no + 1, most=job.max_documents)
    return change
