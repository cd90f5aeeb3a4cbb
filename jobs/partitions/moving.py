"""
A move of slots between partitions: a state machine without I/O.

A move is a whole new map with a higher epoch, so any number of partitions can give and take slots in it.

1. `holding`: each partition holds its jobs and reports them. No document is handed out, and no run begins or ends.
2. `copying`: all jobs were held at the same time, and no reference was on its way. Each partition adopts the new map,
   sends the documents of the slots that it gives away in numbered chunks, and applies the chunks of the others.
3. `done`: all have sent and applied all chunks. Each partition releases its jobs.

A move ends in its first phase if a partition refuses it, or an operator cancels it. Then all jobs continue with the old
map. If a partition is lost while documents are copied, another move follows, which does not wait for it. Its slots go
to the others, and each partition takes back the chunks that it had sent to the lost one. If the lost partition returns
nevertheless, it receives the move, and sends the documents that it still has.

Phases and reports are states, not messages. So a partition may be down, killed or restored at any point: it compares
the phase with its own state, and makes the next step. The chunks of a restored database are a new series. The others
send the control partition the move that they know, so that a restored one learns a forgotten move.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from jobs.partitions.end_of_run import Figures, is_settled
from jobs.partitions.slots import SlotMap


class MovePhase(StrEnum):
    """The phase of a move. A move is over when it is done, refused by a partition or cancelled by an operator."""

    HOLDING = "holding"
    COPYING = "copying"
    DONE = "done"
    REFUSED = "refused"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self not in {MovePhase.HOLDING, MovePhase.COPYING}

    @property
    def place(self) -> int:
        """Return the position of the phase in a move: a higher one is later."""
        return 2 if self.is_over else int(self == MovePhase.COPYING)


class Step(StrEnum):
    """
    The step that a partition makes next in a move: it releases or holds its jobs, adopts the map, sends documents, or
    waits.
    """

    RELEASE = "release"
    HOLD = "hold"
    ADOPT = "adopt"
    SEND = "send"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Move:
    """
    The last move, as the control partition sends it. `to` is its map, whose epoch is the number of the move.

    `why` is the reason of a refusal. The move does not wait for the partitions in `without`, which are lost.
    """

    to: SlotMap
    phase: MovePhase = MovePhase.HOLDING
    why: str = ""
    without: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        return self.to.epoch

    def is_before(self, other: "Move") -> bool:
        """True if the other move is later than this move, or is the same move in a later phase."""
        return (self.number, self.phase.place) < (other.number, other.phase.place)

    def as_json(self) -> dict[str, Any]:
        body = {"map": self.to.as_json(), "phase": self.phase.value, "why": self.why}
        return {**body, "without": list(self.without)} if self.without else body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Move":
        without = tuple(body.get("without", ()))
        return cls(SlotMap.from_json(body["map"], ()), MovePhase(body["phase"]), body["why"], without)


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A held job: its last run, and the references that the job sent and applied if this run is active."""

    run_no: int
    is_active: bool
    sent: Mapping[str, int] = field(default_factory=dict)
    applied: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "run_no": self.run_no,
            "is_active": self.is_active,
            "sent": dict(self.sent),
            "applied": dict(self.applied),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """
    The state of one partition in a move.

    `epoch` is the epoch of the map that the partition applies. `held` has its jobs by number once all are held. Until
    then it is None, and `waits_for` is a sentence about the first job that is not held. `sent` counts the chunks for
    each target, and is None until the last chunk was sent. `series` is the series of these chunks. `applied` counts the
    applied chunks of other partitions by source and series.
    """

    number: int
    epoch: int
    series: str = ""
    refusal: str = ""
    waits_for: str = ""
    held: Mapping[str, HeldJob] | None = None
    sent: Mapping[str, int] | None = None
    applied: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "epoch": self.epoch,
            "series": self.series,
            "refusal": self.refusal,
            "waits_for": self.waits_for,
            "held": None if self.held is None else {name: job.as_json() for name, job in self.held.items()},
            "sent": None if self.sent is None else dict(self.sent),
            "applied": {source: dict(counts) for source, counts in self.applied.items()},
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> "Report":
        held = body["held"]
        jobs = None if held is None else {name: HeldJob(**job) for name, job in held.items()}
        return cls(**{**body, "held": jobs})

    def has_moved(self, number: int) -> bool:
        """True if this partition applies the map of the move, and has sent all documents of the slots that it gives away."""
        return self.number == number and self.epoch >= number and self.sent is not None


def change_owner(before: SlotMap, slots: Iterable[int], targets: Sequence[str], *, number: int) -> SlotMap:
    """Return the map in which these slots belong to the targets, which get them in rotation."""
    owners = list(before.owners)
    for place, slot in enumerate(slots):
        owners[slot] = targets[place % len(targets)]
    return SlotMap(number, tuple(owners))


def leave_out(move: Move, name: str, names: Sequence[str], *, number: int) -> Move:
    """
    Return the move that replaces a move in its copying phase after the loss of a partition. The other partitions get
    its slots.
    """
    without = (*move.without, name)
    left = [one for one in names if one not in without]
    return Move(change_owner(move.to, move.to.slots_of(name), left, number=number), MovePhase.COPYING, without=without)


def newest_move(noted: Move | None, received: Iterable[Move], *, leads: bool) -> Move | None:
    """
    Return the move that a partition notes, from its own note and the moves that it received.

    The control partition `leads`: it takes only a move later than its own, which it has forgotten because of a restore.
    The other partitions take its move, unless that is earlier than their own.
    """
    for move in received:
        if noted is None or noted.is_before(move) or (not leads and not move.is_before(noted)):
            noted = move
    return noted


def decide(move: Move, reports: Mapping[str, Report], names: Sequence[str], *, control: str) -> Move:
    """Return the move after its next step, as the control partition sees it; the unchanged move if it must wait."""
    names = [name for name in names if name not in move.without]
    of_move = {name: report for name, report in reports.items() if name in names and report.number == move.number}
    if move.phase == MovePhase.HOLDING:
        for name in names:
            if name in of_move and of_move[name].refusal:
                return replace(move, phase=MovePhase.REFUSED, why=f"{name}: {of_move[name].refusal}")
        if len(of_move) == len(names) and are_held_together(of_move, control=control):
            return replace(move, phase=MovePhase.COPYING)
    elif (
        move.phase == MovePhase.COPYING
        and len(of_move) == len(names)
        and all(report.has_moved(move.number) for report in of_move.values())
        and all(
            of_move[target].applied.get(source, {}).get(report.series, 0) >= amount
            for source, report in of_move.items()
            for target, amount in (report.sent or {}).items()
        )
    ):
        return replace(move, phase=MovePhase.DONE)
    return move


def are_held_together(reports: Mapping[str, Report], *, control: str) -> bool:
    """
    True if all partitions hold all jobs in the same runs, and no reference is on its way.

    Held jobs send nothing and begin nothing, so reports of different moments describe one state.
    """
    of_control = reports[control].held
    if of_control is None or any(report.held is None for report in reports.values()):
        return False
    for number, led in of_control.items():
        jobs = {name: report.held[number] for name, report in reports.items() if report.held and number in report.held}
        if not _is_in_one_state(led, jobs, partitions=len(reports)):
            return False
    # If the control partition has deleted a job, the move waits until the other partitions have deleted it, too.
    return all(number in of_control for report in reports.values() for number in report.held or ())


def _is_in_one_state(led: HeldJob, jobs: Mapping[str, HeldJob], *, partitions: int) -> bool:
    """
    True if all partitions have a job in the run of the control partition, and none of its references is on its way.
    """
    if len(jobs) < partitions:
        return False
    if not led.is_active:
        return not any(job.is_active for job in jobs.values())
    if any(job.run_no != led.run_no for job in jobs.values()):
        return False
    if not all(job.is_active for job in jobs.values()):
        # A partition has ended the run early, and the other partitions will end it, too. So references that were not
        # applied do not matter any more.
        return True
    return is_settled({name: Figures(quiet=True, sent=job.sent, applied=job.applied) for name, job in jobs.items()})


def next_step(move: Move | None, own: Report) -> Step:
    """Return the next step of a partition; `own` is its report."""
    if move is None or move.phase in {MovePhase.REFUSED, MovePhase.CANCELLED}:
        return Step.RELEASE
    if move.phase == MovePhase.DONE and own.has_moved(move.number):
        return Step.RELEASE
    if own.number != move.number or own.held is None:
        return Step.HOLD
    if move.phase == MovePhase.HOLDING:
        return Step.WAIT
    # A partition that was restored during the move, or after it, may have to repeat earlier steps.
    if own.epoch < move.number:
        return Step.ADOPT
    return Step.SEND if own.sent is None else Step.WAIT
