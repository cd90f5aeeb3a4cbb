"""The diagram of a job's lifecycle: its states in stages, and the arrows that leave a state, from the lifecycle's table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from jobs.lifecycle.job import TRANSITIONS, JobState, is_possible, situation_of
from jobs.lifecycle.table import Transition

# The target of a transition after which the job no longer exists.
GONE: Final = "gone"

# All states of the lifecycle's table, in the order of a run.
STAGES: Final[Mapping[str, Sequence[str]]] = {
    "Between runs": ("inactive", "waiting for approval"),
    "Start": ("ready for startup", "starting up"),
    "Crawl": ("running", "resuming"),
    "Hold": (
        *("pausing", "paused", "waiting", "outside its window"),
        *("pausing and waiting", "paused outside its window"),
    ),
    "End": ("aborting", "restarting", "terminating", "ready to notify", "notifying"),
    "Deletion": (
        *("to be deleted", "starting to delete", "deleting"),
        *("ready to notify of deletion", "notifying of deletion"),
    ),
}


@dataclass(frozen=True, slots=True)
class Arrow:
    """A transition that is possible from a state, and the state to which it leads, which may be the same."""

    transition: Transition
    target: str


def target_of(row: Transition, state: JobState) -> str:
    """Return the name of the state to which a transition leads."""
    becomes: dict[str, Any] = dict(row.values_from(situation_of(state)))
    if "phase" in becomes and becomes["phase"] is None:
        return GONE
    return situation_of(replace(state, **becomes))


def arrows_from(state: JobState) -> list[Arrow]:
    """
    Return the transitions that are possible from a state, in the table's order.

    A transition that the crawl makes by itself has no arrow if it does not change the state.
    """
    here = situation_of(state)
    arrows = (Arrow(row, target_of(row, state)) for row in TRANSITIONS.values() if is_possible(row, state))
    return [arrow for arrow in arrows if arrow.target != here or arrow.transition.label]
