"""
The lifecycle of a job.

ManifoldCF has forty statuses because it multiplies independent facts into one column. Here each fact is a separate
dimension, and ManifoldCF's name is derived from all of them (`manifoldcf_name`). Pausing, waiting and aborting share
one *drain* rule: they end when no document of the job is claimed.

Every status of ManifoldCF corresponds to a tuple of these dimensions. The transitions are in the table.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from jobs.lifecycle.table import Owner, Transition, by_name


class Phase(enum.StrEnum):
    """The step of a run, or of the deletion of a job. A job without a run is `inactive`."""

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
    """The progress of a pause. In `pausing`, the job drains; in `paused`, it has drained."""

    NO = "no"
    PAUSING = "pausing"
    PAUSED = "paused"


class Window(enum.StrEnum):
    """
    The job's relation to its schedule window. In `waiting`, the job drains because its window ended; in `outside`, it
    has drained.
    """

    INSIDE = "inside"
    WAITING = "waiting"
    OUTSIDE = "outside"


class StopRequest(enum.StrEnum):
    """The request to end a run early: `abort` only ends it, and `restart` starts the job again afterwards."""

    NONE = "none"
    ABORT = "abort"
    RESTART = "restart"


class Guard(enum.StrEnum):
    """
    The state of the delete guard for a job: no removals wait for approval (`no`), removals wait for it, or they are
    allowed.
    """

    NO = "no"
    WAITING = "waiting"
    ALLOWED = "allowed"


class Scan(enum.StrEnum):
    """
    The treatment of documents that a run has not reached yet (their `run_no` is older). See `jobs.lifecycle.scan`.
    """

    FULL = "full"
    RECHECK = "recheck"
    CHANGES = "changes"


class Kind(enum.StrEnum):
    """
    The kind of a job decides when its run ends: when all documents are read (ONCE), or only when no document is ever
    read again (CONTINUOUS).
    """

    ONCE = "once"
    CONTINUOUS = "continuous"


class StartMethod(enum.StrEnum):
    """
    The moments at which a schedule may start the job: never, when a window begins, or at any moment inside of a window.
    """

    MANUAL = "manual"
    WINDOW_BEGIN = "window_begin"
    WINDOW_INSIDE = "window_inside"


class HopMode(enum.StrEnum):
    """The treatment of documents beyond a hop limit, by ManifoldCF's names."""

    ACCURATE = "accurate"
    NO_DELETE = "no_delete"
    NEVER_DELETE = "never_delete"


class Overlap(enum.StrEnum):
    """
    The effect of a chain whose successor still runs: no start, a start after this run, or an abort of this run and then
    a start.
    """

    SKIP = "skip"
    QUEUE = "queue"
    REPLACE = "replace"


class RunEnd(enum.StrEnum):
    """
    The reason why a run ended. Only a `finished` run removed the documents that it did not reach. A `held` run waits
    for approval to do so.
    """

    FINISHED = "finished"
    HELD = "held"
    DOCUMENT_LIMIT = "document_limit"
    ABORTED = "aborted"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class JobState:
    """The state of a job: one value for each dimension. The object never changes: a transition makes a new one."""

    phase: Phase = Phase.INACTIVE
    pause: Pause = Pause.NO
    window: Window = Window.INSIDE
    stop_request: StopRequest = StopRequest.NONE
    resuming: bool = False
    seeding: bool = False
    minimal: bool = False
    connectors_ready: bool = True
    guard: Guard = Guard.NO

    @property
    def is_draining(self) -> bool:
        """True if the job drains: its next state is reached when no document is claimed."""
        return (
            self.pause == Pause.PAUSING or self.window == Window.WAITING or self.stop_request != StopRequest.NONE
        ) and self.phase not in {Phase.INACTIVE, Phase.READY_FOR_NOTIFY}

    @property
    def is_halted(self) -> bool:
        """True if the job is stopped or drains: paused, waiting for its window, or being stopped."""
        return self.is_draining or self.pause == Pause.PAUSED or self.window == Window.OUTSIDE

    @property
    def may_be_stuffed(self) -> bool:
        """True if documents of the job may be handed out for processing."""
        return (
            self.phase == Phase.ACTIVE
            and self.pause == Pause.NO
            and self.window == Window.INSIDE
            and self.stop_request == StopRequest.NONE
            and not self.resuming
            and self.connectors_ready
        )


def manifoldcf_name(state: JobState) -> str:
    """Return ManifoldCF's name of a state; '' for a tuple that is not legal."""
    if state.guard not in _GUARDED.get(state.phase, {Guard.NO}):
        return ""
    return _NAMES.get(replace(state, guard=Guard.NO), "")


def states_by_name() -> dict[str, JobState]:
    """Return one state for each of ManifoldCF's names: the simplest state with this name."""
    found: dict[str, JobState] = {}
    for state, name in _NAMES.items():
        found.setdefault(name, state)
    return found


def plain_name(state: JobState) -> str:
    """Return the status in plain words, as on ManifoldCF's pages."""
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
    if state.phase == Phase.INACTIVE and state.guard == Guard.WAITING:
        return "Waiting for approval"
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
    """Return every legal tuple and its name in ManifoldCF."""
    names: dict[JobState, str] = {}
    for minimal in (False, True):
        for ready in (False, True):
            names |= _names_of_run(JobState(minimal=minimal, connectors_ready=ready))
    return names


def _names_of_run(base: JobState) -> dict[JobState, str]:
    """Return the names of all tuples that share `minimal` and `connectors_ready` with `base`."""
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
    """Return the names of the tuples of an active job that differ in pause, window, resuming and stop request."""
    seeds, small = "SEEDING" if active.seeding else "", "MINIMAL" if active.minimal else ""
    names = {
        active: f"ACTIVE{seeds}" if active.connectors_ready else f"ACTIVE{seeds}_UNINSTALLED",
        replace(active, resuming=True): f"RESUMING{seeds}",
    }
    for pause in Pause:
        for window in Window:
            if (pause, window) in _NOWHERE:
                continue
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
    (Pause.PAUSED, Window.INSIDE): "PAUSED",
    (Pause.PAUSED, Window.OUTSIDE): "PAUSEDWAIT",
}
# Values of the guard in each phase where values other than `NO` are possible. ManifoldCF's names have no guard.
_GUARDED: Final = {
    Phase.INACTIVE: {Guard.NO, Guard.WAITING},
    Phase.ACTIVE: {Guard.NO, Guard.ALLOWED},
    Phase.SHUTTING_DOWN: {Guard.NO, Guard.ALLOWED},
    Phase.READY_FOR_NOTIFY: {Guard.NO, Guard.WAITING},
    Phase.NOTIFYING: {Guard.NO, Guard.WAITING},
}
# Impossible pairs of values: a job that has drained in one dimension cannot be draining in the other one.
_NOWHERE: Final = {(Pause.PAUSING, Window.OUTSIDE), (Pause.PAUSED, Window.WAITING)}
_NAMES: Final = _all_names()


# Predicates over job states, for the situations from which the transitions of the table start.
def _active(pause: Pause, window: Window, *, resuming: bool = False) -> Callable[[JobState], bool]:
    def holds(state: JobState) -> bool:
        return (
            state.phase == Phase.ACTIVE
            and state.stop_request == StopRequest.NONE
            and (state.pause, state.window, state.resuming) == (pause, window, resuming)
        )

    return holds


def _in(phase: Phase) -> Callable[[JobState], bool]:
    return lambda state: state.phase == phase and state.stop_request == StopRequest.NONE


SITUATIONS: Final[Mapping[str, Callable[[JobState], bool]]] = {
    "inactive": lambda state: _in(Phase.INACTIVE)(state) and state.guard == Guard.NO,
    "waiting for approval": lambda state: _in(Phase.INACTIVE)(state) and state.guard == Guard.WAITING,
    "ready for startup": _in(Phase.READY_FOR_STARTUP),
    "starting up": _in(Phase.STARTING_UP),
    "running": _active(Pause.NO, Window.INSIDE),
    "resuming": _active(Pause.NO, Window.INSIDE, resuming=True),
    "waiting": _active(Pause.NO, Window.WAITING),
    "outside its window": _active(Pause.NO, Window.OUTSIDE),
    "pausing": _active(Pause.PAUSING, Window.INSIDE),
    "pausing and waiting": _active(Pause.PAUSING, Window.WAITING),
    "paused": _active(Pause.PAUSED, Window.INSIDE),
    "paused outside its window": _active(Pause.PAUSED, Window.OUTSIDE),
    "terminating": _in(Phase.SHUTTING_DOWN),
    "aborting": lambda state: state.stop_request == StopRequest.ABORT,
    "restarting": lambda state: state.stop_request == StopRequest.RESTART,
    "ready to notify": _in(Phase.READY_FOR_NOTIFY),
    "notifying": _in(Phase.NOTIFYING),
    "to be deleted": _in(Phase.READY_FOR_DELETE),
    "starting to delete": _in(Phase.DELETE_STARTING_UP),
    "deleting": _in(Phase.DELETING),
    "ready to notify of deletion": _in(Phase.READY_FOR_DELETE_NOTIFY),
    "notifying of deletion": _in(Phase.NOTIFYING_OF_DELETION),
}
_NOT_RUNNING: Final = {"inactive", "waiting for approval"}
_PAUSED: Final = {"paused", "paused outside its window"}
_HANDED_OUT: Final = {"running", "waiting", "pausing", "pausing and waiting"}
_ACTIVE: Final = {*_HANDED_OUT, *_PAUSED, "resuming", "outside its window"}
_BEGUN: Final = {"ready for startup", "starting up", *_ACTIVE}
_ENDING: Final = {"ready to notify", "notifying"}


def situation_of(state: JobState) -> str:
    """Return the situation to which a state belongs; '' for an impossible state."""
    for name, holds in SITUATIONS.items():
        if holds(state):
            return name
    return ""


def is_possible(row: Transition, state: JobState) -> bool:
    """True if the state allows the transition. Other facts, which this function does not know, may still prevent it."""
    return situation_of(state) in row.sources and all(
        getattr(state, name) == value for name, value in row.requires.items()
    )


_STOPPED: Final[Mapping[str, object]] = {
    "pause": Pause.NO,
    "window": Window.INSIDE,
    "stop_request": StopRequest.NONE,
    "resuming": False,
    "seeding": False,
    "guard": Guard.NO,
}

TRANSITIONS: Final = by_name(
    (
        # --- Requests of operators ---
        Transition(
            "start",
            frozenset(_NOT_RUNNING),
            {"phase": Phase.READY_FOR_STARTUP, "minimal": False, "guard": Guard.NO},
            Owner.OPERATOR,
            guard="the job has a seed and an output",
            message="was started",
            label="Start",
        ),
        Transition(
            "start minimal",
            frozenset(_NOT_RUNNING),
            {"phase": Phase.READY_FOR_STARTUP, "minimal": True, "guard": Guard.NO},
            Owner.OPERATOR,
            guard="the job has a seed and an output",
            message="was started for changes only",
            label="Start minimal",
        ),
        Transition(
            "pause",
            frozenset({"running", "resuming", "waiting", "outside its window"}),
            {"pause": Pause.PAUSING, "resuming": False},
            Owner.OPERATOR,
            message="was asked to pause",
            label="Pause",
            unlike={"outside its window": {"pause": Pause.PAUSED}},
            keeps_reason=True,
        ),
        Transition(
            "resume",
            frozenset({"pausing", "pausing and waiting", *_PAUSED}),
            {"pause": Pause.NO, "resuming": True},
            Owner.OPERATOR,
            message="was asked to resume",
            label="Resume",
            unlike={name: {"pause": Pause.NO} for name in ("pausing and waiting", "paused outside its window")},
        ),
        Transition(
            "abort",
            frozenset({*_BEGUN, "restarting", "terminating", *_ENDING}),
            {"stop_request": StopRequest.ABORT, "resuming": False},
            Owner.OPERATOR,
            message="was asked to abort",
            label="Abort",
            unlike={name: {"phase": Phase.INACTIVE} for name in _ENDING},
        ),
        Transition(
            "restart",
            frozenset(_BEGUN),
            {"stop_request": StopRequest.RESTART, "resuming": False, "minimal": False},
            Owner.OPERATOR,
            message="was asked to restart",
            label="Restart",
            unlike={"ready for startup": {"minimal": False}},
        ),
        Transition(
            "restart minimal",
            frozenset(_BEGUN),
            {"stop_request": StopRequest.RESTART, "resuming": False, "minimal": True},
            Owner.OPERATOR,
            message="was asked to restart for changes only",
            label="Restart minimal",
            unlike={"ready for startup": {"minimal": True}},
        ),
        Transition(
            "reset seeding",
            frozenset({*_NOT_RUNNING, *_ACTIVE, "terminating", *_ENDING}),
            {},
            Owner.OPERATOR,
            message="will read its source from the beginning in its next run",
            label="Reset seeding",
            keeps_reason=True,
        ),
        Transition(
            "delete",
            frozenset(_NOT_RUNNING),
            {"phase": Phase.READY_FOR_DELETE, "guard": Guard.NO},
            Owner.OPERATOR,
            message="will be deleted",
            label="Delete",
        ),
        Transition(
            "allow removals",
            frozenset({"waiting for approval"}),
            {"phase": Phase.SHUTTING_DOWN, "guard": Guard.ALLOWED},
            Owner.OPERATOR,
            guard="all its lanes are ready",
            message="may remove what its last run did not reach",
            label="Allow removals",
        ),
        Transition(
            "refuse removals",
            frozenset({"waiting for approval"}),
            {"guard": Guard.NO},
            Owner.OPERATOR,
            message="keeps what its last run did not reach",
            label="Refuse removals",
        ),
        # --- Schedule windows ---
        Transition(
            "begin window",
            frozenset(_NOT_RUNNING),
            {"phase": Phase.READY_FOR_STARTUP, "guard": Guard.NO},
            Owner.MAIN,
            guard="a window that starts the job is open, and decides whether the run is minimal",
            message="was started by its schedule",
        ),
        Transition(
            "follow",
            frozenset(_NOT_RUNNING),
            {"phase": Phase.READY_FOR_STARTUP, "minimal": False, "guard": Guard.NO},
            Owner.MAIN,
            guard="a predecessor of the job in a chain ended well",
            message="was started by a chain",
        ),
        Transition(
            "wait",
            frozenset({"running", "resuming", "pausing", "paused"}),
            {"window": Window.WAITING, "resuming": False},
            Owner.MAIN,
            guard="the window of the run has closed, and no other window is open",
            message="waits for its window",
            unlike={"paused": {"window": Window.OUTSIDE}},
        ),
        Transition(
            "unwait",
            frozenset({"waiting", "outside its window", "pausing and waiting", "paused outside its window"}),
            {"window": Window.INSIDE, "resuming": True},
            Owner.MAIN,
            guard="a window that starts the job is open",
            message="continues, because its window is open",
            unlike={name: {"window": Window.INSIDE} for name in ("pausing and waiting", "paused outside its window")},
        ),
        # --- The beginning of a run ---
        Transition(
            "prepare",
            frozenset({"ready for startup"}),
            {"phase": Phase.STARTING_UP},
            Owner.MAIN,
            guard="its connectors are installed, and each seed of the job has a group with an owner",
            message="prepares its run",
        ),
        Transition(
            "postpone",
            frozenset({"starting up"}),
            {"phase": Phase.READY_FOR_STARTUP},
            Owner.GROUP_OWNER,
            guard="a seed could not be read, and a retry is left",
            message="could not start yet",
        ),
        Transition(
            "give up",
            frozenset({"starting up"}),
            {"stop_request": StopRequest.ABORT},
            Owner.GROUP_OWNER,
            guard="a seed could not be read, and no retry is left",
            message="cannot start",
        ),
        Transition(
            "activate",
            frozenset({"starting up"}),
            {"phase": Phase.ACTIVE},
            Owner.GROUP_OWNER,
            guard="every seed was read in this run",
            message="is running",
        ),
        Transition(
            "begin reseeding",
            frozenset({"running"}),
            {"seeding": True},
            Owner.MAIN,
            guard="a continuous job reads its seeds again, or a seed was changed",
            message="reads its seeds again",
            requires={"seeding": False},
            keeps_reason=True,
        ),
        Transition(
            "end reseeding",
            frozenset(_ACTIVE),
            {"seeding": False},
            Owner.GROUP_OWNER,
            guard="every seed was read since then",
            message="has read its seeds",
            requires={"seeding": True},
            keeps_reason=True,
        ),
        # --- Stopping and continuing ---
        Transition(
            "halt",
            frozenset({"waiting", "pausing", "pausing and waiting"}),
            {"pause": Pause.PAUSED, "window": Window.OUTSIDE},
            Owner.MAIN,
            guard="no document of the job is claimed",
            message="is halted",
            unlike={"waiting": {"window": Window.OUTSIDE}, "pausing": {"pause": Pause.PAUSED}},
            keeps_reason=True,
        ),
        Transition(
            "continue",
            frozenset({"resuming"}),
            {"resuming": False},
            Owner.MAIN,
            guard="no pause and no window holds the job",
            message="continues",
        ),
        Transition(
            "interrupt",
            frozenset({*_ACTIVE} - _PAUSED),
            {"pause": Pause.PAUSED, "window": Window.INSIDE, "resuming": False},
            Owner.MAIN,
            guard="no node of its one-shot is alive, and no document is claimed",
            message="lost its process",
        ),
        Transition(
            "lose connector",
            frozenset(SITUATIONS.keys() - _NOT_RUNNING),
            {"connectors_ready": False},
            Owner.MAIN,
            guard="a connector of the job is not installed",
            message="waits for a missing connector",
            requires={"connectors_ready": True},
        ),
        Transition(
            "find connector",
            frozenset(SITUATIONS.keys()),
            {"connectors_ready": True},
            Owner.MAIN,
            guard="all connectors of the job are installed again",
            message="has its connectors again",
            requires={"connectors_ready": False},
        ),
        # --- The end of a run ---
        Transition(
            "fail",
            frozenset({*_ACTIVE, "terminating"}),
            {"stop_request": StopRequest.ABORT, "resuming": False},
            Owner.WORKER,
            guard="a document failed at its last attempt, and its connector reports that the job cannot continue",
            message="ends with an error",
        ),
        Transition(
            "end aborted",
            frozenset({"aborting"}),
            {"phase": Phase.READY_FOR_NOTIFY, **_STOPPED},
            Owner.MAIN,
            guard="no document of the job is claimed",
            message="ended early",
            keeps_reason=True,
        ),
        Transition(
            "start again",
            frozenset({"restarting"}),
            {"phase": Phase.READY_FOR_STARTUP, **_STOPPED},
            Owner.MAIN,
            guard="no document of the job is claimed",
            message="ended early, and restarts",
        ),
        Transition(
            "shut down",
            frozenset({"running", "outside its window"}),
            {"phase": Phase.SHUTTING_DOWN, "window": Window.INSIDE},
            Owner.MAIN,
            guard="no document of this run is pending or claimed",
            message="removes documents that it no longer reaches",
            requires={"seeding": False},
        ),
        Transition(
            "hold removals",
            frozenset({"running", "outside its window"}),
            {"phase": Phase.READY_FOR_NOTIFY, "window": Window.INSIDE, "guard": Guard.WAITING},
            Owner.MAIN,
            guard="no document of this run is pending or claimed, and its removals exceed a threshold of the job's guard",
            message="waits for approval",
            requires={"seeding": False, "guard": Guard.NO},
        ),
        Transition(
            "wake up",
            frozenset({"terminating"}),
            {"phase": Phase.ACTIVE},
            Owner.MAIN,
            guard="removals have made documents of this run pending",
            message="continues, because its removals made documents pending",
        ),
        Transition(
            "end at its limit",
            frozenset({"running", "outside its window"}),
            {"phase": Phase.READY_FOR_NOTIFY, "window": Window.INSIDE, "guard": Guard.NO},
            Owner.MAIN,
            guard="the run has reached its document limit, and no admitted document is pending or claimed",
            message="reached its document limit",
            requires={"seeding": False},
        ),
        Transition(
            "finish",
            frozenset({"terminating"}),
            {"phase": Phase.READY_FOR_NOTIFY, "guard": Guard.NO},
            Owner.MAIN,
            guard="no document of an earlier run is left",
            message="is finished",
        ),
        Transition(
            "notify",
            frozenset({"ready to notify"}),
            {"phase": Phase.NOTIFYING},
            Owner.MAIN,
            guard="an output needs the notification, and no retry of it is delayed",
            message="notifies its outputs of the end of the run",
            keeps_reason=True,
        ),
        Transition(
            "postpone notification",
            frozenset({"notifying"}),
            {"phase": Phase.READY_FOR_NOTIFY},
            Owner.MAIN,
            guard="the notification of an output failed, and a retry is left",
            message="could not notify its outputs yet",
            keeps_reason=True,
        ),
        Transition(
            "end",
            frozenset(_ENDING),
            {"phase": Phase.INACTIVE},
            Owner.MAIN,
            guard="every output was notified, or has no retry left",
            message="has ended",
            keeps_reason=True,
        ),
        # --- The end of the job ---
        Transition(
            "prepare deletion",
            frozenset({"to be deleted"}),
            {"phase": Phase.DELETE_STARTING_UP},
            Owner.MAIN,
            guard="its seeds have groups with owners",
            message="prepares its deletion",
            keeps_reason=True,
        ),
        Transition(
            "begin deleting",
            frozenset({"starting to delete"}),
            {"phase": Phase.DELETING},
            Owner.MAIN,
            guard="all its lanes are ready",
            message="is being deleted",
            keeps_reason=True,
        ),
        Transition(
            "end deleting",
            frozenset({"deleting"}),
            {"phase": Phase.READY_FOR_DELETE_NOTIFY},
            Owner.MAIN,
            guard="no document of the job is left",
            message="has no documents left",
        ),
        Transition(
            "notify of deletion",
            frozenset({"ready to notify of deletion"}),
            {"phase": Phase.NOTIFYING_OF_DELETION},
            Owner.MAIN,
            guard="an output needs the notification, and no retry of it is delayed",
            message="notifies its outputs of its deletion",
        ),
        Transition(
            "postpone notification of deletion",
            frozenset({"notifying of deletion"}),
            {"phase": Phase.READY_FOR_DELETE_NOTIFY},
            Owner.MAIN,
            guard="the notification of an output failed, and a retry is left",
            message="could not notify its outputs of its deletion yet",
        ),
        Transition(
            "go",
            frozenset({"ready to notify of deletion", "notifying of deletion"}),
            {"phase": None},
            Owner.MAIN,
            guard="every output was notified, or has no retry left",
            message="was deleted",
        ),
    )
)


def allowed_transitions(state: JobState, *, owner: Owner) -> list[Transition]:
    """Return the transitions that `owner` may make from this state, in the table's order."""
    return [row for row in TRANSITIONS.values() if row.owner == owner and is_possible(row, state)]
