"""The beginning of a run, requested by an operator, a schedule or a restart."""

import datetime as dt
from collections.abc import Mapping

from django.db import transaction

from jobs.models import Budget, Job
from jobs.partitions import this_partition
from jobs.partitions.shares import first_shares
from jobs.state import trap_rules
from jobs.state.run_rows import begin_row
from jobs.state.transitions import StateChange, make_transition
from nodes.errors import Invalid
from nodes.lifecycle import CLUSTER_SCOPE
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
        Invalid: the job has no seed or no output.
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
        # The end of a run applies these rules, but a restart goes from one run to the next without this step.
        trap_rules.apply_waiting_rules(job, now=now)
        if not job.seeds.filter(removed_at=None).exists():
            raise Invalid({"seeds": [f"Job {job.name} has no seed. Add one first."]})
        if not job.outputs.exists():
            raise Invalid({"outputs": [f"Job {job.name} has no output. Choose one first."]})
        begin_row(job, made_by=made_by, now=now)
        Budget.objects.filter(job=job).delete()
        if job.max_documents is not None:
            places = _places_of(job, job.max_documents)
            Budget.objects.create(job=job, run_no=job.run_no + 1, **places)
    return change


def _places_of(job: Job, limit: int) -> dict[str, int]:
    """
    Return the columns of the budget with which this partition begins the run. The control partition sends shares of the
    document limit to the other partitions.
    """
    placement = this_partition.placement()
    if placement is None or job.node_scope != CLUSTER_SCOPE:
        return {"most": limit}
    if not placement.is_control:
        return {"most": 0}
    return {"most": first_shares(limit, placement.names)[placement.here], "total": limit}
