"""Transitions of jobs by duties. If another process made a transition meanwhile, that transition stays."""

from collections.abc import Callable, Mapping

from jobs.duties.context import Pass
from jobs.models import Job
from jobs.state.runs import ask_for_run
from jobs.state.transitions import StateChange, TransitionRefused, make_transition
from nodes.errors import Unknown

_MADE_BY = "manager"


def move(at: Pass, job_id: int, name: str, *, facts: Mapping[str, object] | None = None, reason: str = "") -> bool:
    """Make a transition of the main manager; return True if it was made."""
    return _was_made(
        lambda: make_transition(
            job_id, name, made_by=_MADE_BY, now=at.now, facts=facts, reason=reason, term=at.held_term
        )
    )


def move_as_owner(
    at: Pass, job_id: int, name: str, *, facts: Mapping[str, object] | None = None, reason: str = ""
) -> bool:
    """Make a transition of a group's owner, which has no term; return True if it was made."""
    return _was_made(lambda: make_transition(job_id, name, made_by=_MADE_BY, now=at.now, facts=facts, reason=reason))


def begin_run(at: Pass, job_id: int, name: str, *, facts: Mapping[str, object] | None = None, reason: str = "") -> bool:
    """
    Make a job ready for startup; return True if the transition was made.

    Raises:
        Invalid: the job has no seed or no output.
    """
    return _was_made(
        lambda: ask_for_run(job_id, name, made_by=_MADE_BY, now=at.now, facts=facts, reason=reason, term=at.held_term)
    )


def set_reason(job_id: int, reason: str) -> None:
    """Restore the reason shown for a job after a transition cleared it."""
    Job.objects.filter(pk=job_id, reason="").update(reason=reason)


def _was_made(transition: Callable[[], StateChange]) -> bool:
    try:
        transition()
    except (TransitionRefused, Unknown):
        return False
    return True
