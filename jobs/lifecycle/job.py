"""
The lifecycle of a job.

ManifoldCF has forty statuses because it multiplies independent facts into one column. Here each fact
is a dimension of its own, and ManifoldCF's name is derived (`manifoldcf_name`). Pausing, waiting and
aborting share one *drain* rule: no document of the job is claimed.

Every status of ManifoldCF has its tuple here; the table holds the transitions that are performed.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from jobs.lifecycle.table import Owner, Transition, by_name


class Phase(enum.StrEnum):
    INACTIVE = "inactive"
    READY_FOR_STARTUP = "ready_for_startup"
    STARTING_UP = "starting_up"
    ACTIVE = "active"
    SHUTTING_DOWN = "shutting_down"
    READY_FOR_NOTIFY = "ready_for_notify"
    NOTIFYING = "notifying"
    READY_FOR_DELETE = "ready_for_delete"
    DELETE_STARTING_UP = "delete_starting_up"
    DELETING = "deleting"
    READY_FOR_DELETE_NOTIFY = "ready_for_delete_notify"
    NOTIFYING_OF_DELETION = "notifying_of_deletion"


class Pause(enum.StrEnum):
    NO = "no"
    PAUSING = "pausing"
    PAUSED = "paused"


class Window(enum.StrEnum):
    """Where the job stands to its schedule window: `waiting` drains, `outside` is at rest."""

    INSIDE = "inside"
    WAITING = "waiting"
    OUTSIDE = "outside"


class StopRequest(enum.StrEnum):
    NONE = "none"
    ABORT = "abort"
    RESTART = "restart"


class Scan(enum.StrEnum):
    """What an older `run_no` of a document means in this run."""

    FULL = "full"
    RECHECK = "recheck"
    CHANGES = "changes"


class Kind(enum.StrEnum):
    """How a job ends: when all of a run is read, or never while there is something to look at again."""

    ONCE = "once"
    CONTINUOUS = "continuous"


class StartMethod(enum.StrEnum):
    """Whether the schedule starts a job: never, when a window begins, or at any moment inside of one."""

    MANUAL = "manual"
    WINDOW_BEGIN = "window_begin"
    WINDOW_INSIDE = "window_inside"


class HopMode(enum.StrEnum):
    """What becomes of documents that come to stand farther away than a hop limit."""

    ACCURATE = "accurate"
    NO_DELETE = "no_delete"
    NEVER_DELETE = "never_delete"


class RunEnd(enum.StrEnum):
    """Why a run ended. Only a run that was `finished` cleans what it did not reach."""

    FINISHED = "finished"
    DOCUMENT_LIMIT = "document_limit"
    ABORTED = "aborted"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class JobState:
    """The facts that make up where a job stands."""

    phase: Phase = Phase.INACTIVE
    pause: Pause = Pause.NO
    window: Window = Window.INSIDE
    stop_request: StopRequest = StopRequest.NONE
    resuming: bool = False
    seeding: bool = False
    minimal: bool = False
    connectors_ready: bool = True

    @property
    def is_draining(self) -> bool:
        """Work in flight comes to rest: the next state is reached when no document is claimed."""
        return (
            self.pause == Pause.PAUSING or self.window == Window.WAITING or self.stop_request != StopRequest.NONE
        ) and self.phase not in {Phase.INACTIVE, Phase.READY_FOR_NOTIFY}

    @property
    def may_be_stuffed(self) -> bool:
        """Documents of the job may be handed out to be processed."""
        return (
            self.phase == Phase.ACTIVE
            and self.pause == Pause.NO
            and self.window == Window.INSIDE
            and self.stop_request == StopRequest.NONE
            and not self.resuming
            and self.connectors_ready
        )


def manifoldcf_name(state: JobState) -> str:
    """The name that ManifoldCF's users know; '' for a tuple that is not legal."""
    return _NAMES.get(state, "")


def states_by_name() -> dict[str, JobState]:
    """One state for each of ManifoldCF's names: the plainest that has it."""
    found: dict[str, JobState] = {}
    for state, name in _NAMES.items():
        found.setdefault(name, state)
    return found


def plain_name(state: JobState) -> str:
    """The status in plain words, as ManifoldCF's pages say it."""
    if state.phase == Phase.ACTIVE or state.stop_request != StopRequest.NONE:
        if state.stop_request == StopRequest.ABORT:
            return "Aborting"
        if state.stop_request == StopRequest.RESTART:
            return "Restarting"
        if state.pause == Pause.PAUSED:
            return "Paused"
        if state.pause == Pause.PAUSING or state.window == Window.WAITING:
            return "Stopping"
        if state.window == Window.OUTSIDE:
            return "Waiting"
        if state.resuming:
            return "Resuming"
        return "Running" if state.connectors_ready else "Running, no connector"
    return _PLAIN[state.phase]


_PLAIN: Final = {
    Phase.INACTIVE: "Not running",
    Phase.READY_FOR_STARTUP: "Starting up",
    Phase.STARTING_UP: "Starting up",
    Phase.ACTIVE: "Running",
    Phase.SHUTTING_DOWN: "Terminating",
    Phase.READY_FOR_NOTIFY: "End notification",
    Phase.NOTIFYING: "End notification",
    Phase.READY_FOR_DELETE: "Cleaning up",
    Phase.DELETE_STARTING_UP: "Cleaning up",
    Phase.DELETING: "Cleaning up",
    Phase.READY_FOR_DELETE_NOTIFY: "Cleaning up",
    Phase.NOTIFYING_OF_DELETION: "Cleaning up",
}


def _all_names() -> dict[JobState, str]:
    """Every legal tuple and its name in ManifoldCF."""
    names: dict[JobState, str] = {}
    for minimal in (False, True):
        for ready in (False, True):
            names |= _names_of_run(JobState(minimal=minimal, connectors_ready=ready))
    return names


def _names_of_run(base: JobState) -> dict[JobState, str]:
    """The names of all tuples that share `minimal` and `connectors_ready` with `base`."""
    names = {replace(base, phase=phase): name for phase, name in _SIMPLE_NAMES.items()}
    small = "MINIMAL" if base.minimal else ""
    aborting = replace(base, stop_request=StopRequest.ABORT)
    restarting = replace(base, stop_request=StopRequest.RESTART)
    if not base.connectors_ready:
        names[replace(base, phase=Phase.DELETING)] = "DELETING_NOOUTPUT"
    names[replace(base, phase=Phase.READY_FOR_STARTUP)] = f"READYFORSTARTUP{small}"
    names[replace(base, phase=Phase.STARTING_UP)] = f"STARTINGUP{small}"
    names[replace(aborting, phase=Phase.READY_FOR_STARTUP)] = "ABORTING"
    names[replace(aborting, phase=Phase.STARTING_UP)] = "ABORTING"
    names[replace(aborting, phase=Phase.SHUTTING_DOWN)] = "ABORTINGSHUTTINGDOWN"
    names[replace(restarting, phase=Phase.STARTING_UP)] = f"ABORTINGSTARTINGUPFORRESTART{small}"
    for seeding in (False, True):
        names |= _names_of_active(replace(base, phase=Phase.ACTIVE, seeding=seeding))
    return names


def _names_of_active(active: JobState) -> dict[JobState, str]:
    """The names of the tuples of an active job that differ in pause, window, resuming and stop request."""
    seeds, small = "SEEDING" if active.seeding else "", "MINIMAL" if active.minimal else ""
    names = {
        active: f"ACTIVE{seeds}" if active.connectors_ready else f"ACTIVE{seeds}_UNINSTALLED",
        replace(active, resuming=True): f"RESUMING{seeds}",
    }
    for pause in Pause:
        for window in Window:
            state = replace(active, pause=pause, window=window)
            names[replace(state, stop_request=StopRequest.ABORT)] = "ABORTING"
            names[replace(state, stop_request=StopRequest.RESTART)] = f"ABORTINGFORRESTART{seeds}{small}"
            if state != active:
                names[state] = _PAUSED_OR_WAITING[pause, window] + seeds
    return names


_SIMPLE_NAMES: Final = {
    Phase.INACTIVE: "INACTIVE",
    Phase.SHUTTING_DOWN: "SHUTTINGDOWN",
    Phase.READY_FOR_NOTIFY: "READYFORNOTIFY",
    Phase.NOTIFYING: "NOTIFYINGOFCOMPLETION",
    Phase.READY_FOR_DELETE: "READYFORDELETE",
    Phase.DELETE_STARTING_UP: "DELETESTARTINGUP",
    Phase.DELETING: "DELETING",
    Phase.READY_FOR_DELETE_NOTIFY: "READYFORDELETENOTIFY",
    Phase.NOTIFYING_OF_DELETION: "NOTIFYINGOFDELETION",
}
_PAUSED_OR_WAITING: Final = {
    (Pause.NO, Window.WAITING): "ACTIVEWAITING",
    (Pause.NO, Window.OUTSIDE): "ACTIVEWAIT",
    (Pause.PAUSING, Window.INSIDE): "PAUSING",
    (Pause.PAUSING, Window.WAITING): "PAUSINGWAITING",
    (Pause.PAUSING, Window.OUTSIDE): "PAUSINGWAITING",
    (Pause.PAUSED, Window.INSIDE): "PAUSED",
    (Pause.PAUSED, Window.WAITING): "PAUSINGWAITING",
    (Pause.PAUSED, Window.OUTSIDE): "PAUSEDWAIT",
}
_NAMES: Final = _all_names()


# The states that the table's rows start from, each a predicate over the facts.
SITUATIONS: Final[Mapping[str, Callable[[JobState], bool]]] = {
    "inactive": lambda s: s.phase == Phase.INACTIVE,
    "ready for startup": lambda s: s.phase == Phase.READY_FOR_STARTUP and s.stop_request == StopRequest.NONE,
    "starting up": lambda s: s.phase == Phase.STARTING_UP and s.stop_request == StopRequest.NONE,
    "running": lambda s: (
        s.phase == Phase.ACTIVE and s.pause == Pause.NO and s.stop_request == StopRequest.NONE and not s.resuming
    ),
    "pausing": lambda s: s.phase == Phase.ACTIVE and s.pause == Pause.PAUSING and s.stop_request == StopRequest.NONE,
    "paused": lambda s: s.phase == Phase.ACTIVE and s.pause == Pause.PAUSED and s.stop_request == StopRequest.NONE,
    "terminating": lambda s: s.phase == Phase.SHUTTING_DOWN and s.stop_request == StopRequest.NONE,
    "aborting": lambda s: s.stop_request == StopRequest.ABORT,
    "to be deleted": lambda s: s.phase == Phase.READY_FOR_DELETE,
    "deleting": lambda s: s.phase == Phase.DELETING,
}


def situation_of(state: JobState) -> str:
    """The one situation that a state is in, '' when no transition starts there."""
    for name, holds in SITUATIONS.items():
        if holds(state):
            return name
    return ""


TRANSITIONS: Final = by_name(
    (
        Transition(
            "start",
            frozenset({"inactive"}),
            {"phase": Phase.READY_FOR_STARTUP, "pause": Pause.NO, "stop_request": StopRequest.NONE},
            Owner.OPERATOR,
            guard="the job has a seed and an output",
            says="was started",
            label="Start",
        ),
        Transition(
            "prepare",
            frozenset({"ready for startup"}),
            {"phase": Phase.STARTING_UP},
            Owner.MAIN,
            guard="each seed of the job has a group with an owner",
            says="prepares its run",
        ),
        Transition(
            "activate",
            frozenset({"starting up"}),
            {"phase": Phase.ACTIVE},
            Owner.GROUP_OWNER,
            guard="every seed has been seeded in this run",
            says="is running",
        ),
        Transition(
            "pause",
            frozenset({"running"}),
            {"pause": Pause.PAUSING},
            Owner.OPERATOR,
            says="was asked to pause",
            label="Pause",
        ),
        Transition(
            "come to rest",
            frozenset({"pausing"}),
            {"pause": Pause.PAUSED},
            Owner.MAIN,
            guard="no document of the job is claimed",
            says="is paused",
        ),
        Transition(
            "interrupt",
            frozenset({"running", "pausing"}),
            {"pause": Pause.PAUSED},
            Owner.MAIN,
            guard="no live node of its one-shot is left, and no document is claimed",
            says="lost its process",
        ),
        Transition(
            "resume",
            frozenset({"pausing", "paused"}),
            {"pause": Pause.NO},
            Owner.OPERATOR,
            says="goes on",
            label="Resume",
        ),
        Transition(
            "abort",
            frozenset({"ready for startup", "starting up", "running", "pausing", "paused", "terminating"}),
            {"stop_request": StopRequest.ABORT},
            Owner.OPERATOR,
            says="was asked to abort",
            label="Abort",
        ),
        Transition(
            "end aborted",
            frozenset({"aborting"}),
            {"phase": Phase.INACTIVE, "pause": Pause.NO, "stop_request": StopRequest.NONE},
            Owner.MAIN,
            guard="no document of the job is claimed",
            says="ended before it was finished",
        ),
        Transition(
            "shut down",
            frozenset({"running"}),
            {"phase": Phase.SHUTTING_DOWN},
            Owner.MAIN,
            guard="no document of this run is pending or claimed",
            says="removes what it no longer reaches",
        ),
        Transition(
            "end at its limit",
            frozenset({"running"}),
            {"phase": Phase.INACTIVE},
            Owner.MAIN,
            guard="the budget is used up and no admitted document is pending or claimed",
            says="reached its document limit",
        ),
        Transition(
            "finish",
            frozenset({"terminating"}),
            {"phase": Phase.INACTIVE},
            Owner.MAIN,
            guard="no document of an older run is left",
            says="is finished",
        ),
        Transition(
            "delete",
            frozenset({"inactive"}),
            {"phase": Phase.READY_FOR_DELETE},
            Owner.OPERATOR,
            says="is to be deleted",
            label="Delete",
        ),
        Transition(
            "begin deleting",
            frozenset({"to be deleted"}),
            {"phase": Phase.DELETING},
            Owner.MAIN,
            says="is being deleted",
        ),
    )
)


def allowed_transitions(state: JobState, *, owner: Owner) -> list[Transition]:
    """The rows that `owner` may perform from this state, in the table's order."""
    situation = situation_of(state)
    return [row for row in TRANSITIONS.values() if row.owner == owner and situation in row.sources]
