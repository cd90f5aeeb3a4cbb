"""
Proves that a move of slots between partitions takes its steps in order. Random histories of moves are in
`tests.simulation.partitions`.
"""

from dataclasses import replace

from jobs.partitions.moving import (
    HeldJob,
    Move,
    MovePhase,
    Report,
    Step,
    are_held_together,
    change_owner,
    decide,
    leave_out,
    next_step,
)
from jobs.partitions.placement import SLOTS
from jobs.partitions.slots import SlotMap
from tests.support.tables import each_row

EVEN = SlotMap.even("ab")
MOVE = Move(change_owner(EVEN, [0, 1], ["b"], number=1))
INACTIVE = HeldJob(3, is_active=False)
RUNNING = HeldJob(3, is_active=True)


def held(job=INACTIVE, **facts):
    return replace(Report(1, 0, held={"7": job}), **facts)


def test_a_move_gives_slots_to_its_targets_in_turn():
    moved = change_owner(SlotMap.even("abc"), [0, 1, 2], ["b", "c"], number=4)

    assert (moved.epoch, moved.owners[:4]) == (4, ("b", "c", "b", "a"))


def test_documents_are_copied_when_all_partitions_hold_all_jobs():
    waiting = {"a": held(), "b": held(held=None, waits_for="Job news starts.")}

    assert decide(MOVE, {"a": held()}, "ab", control="a") == MOVE
    assert decide(MOVE, waiting, "ab", control="a") == MOVE
    assert decide(MOVE, {"a": held(), "b": held()}, "ab", control="a").phase == MovePhase.COPYING


def test_a_report_about_an_earlier_move_does_not_count():
    assert decide(MOVE, {"a": held(), "b": held(number=0)}, "ab", control="a") == MOVE


@each_row(
    "of_a, of_b",
    [
        (RUNNING, HeldJob(2, is_active=False)),
        (RUNNING, replace(RUNNING, run_no=2)),
        (replace(RUNNING, sent={"b": 1}), RUNNING),
        (INACTIVE, RUNNING),
    ],
    ids=["has not begun", "is in the run before", "a reference travels", "has not ended"],
)
def test_jobs_in_different_states_are_not_held_together(of_a, of_b):
    assert not are_held_together({"a": held(of_a), "b": held(of_b)}, control="a")


@each_row(
    "of_b",
    [replace(RUNNING, applied={"a": 1}), INACTIVE],
    ids=["all references are applied", "its run ended early"],
)
def test_jobs_of_one_run_are_held_together(of_b):
    assert are_held_together({"a": held(replace(RUNNING, sent={"b": 1})), "b": held(of_b)}, control="a")


def test_a_job_that_one_partition_does_not_know_yet_is_not_held():
    unknown = {"a": held(RUNNING), "b": held(held={})}
    deleted = {"a": held(held={}), "b": held()}

    assert not are_held_together(unknown, control="a")
    assert not are_held_together(deleted, control="a")


def test_a_refusal_ends_the_move_with_its_reason():
    refused = decide(MOVE, {"a": held(), "b": held(refusal="Job news has an archive.")}, "ab", control="a")

    assert (refused.phase, refused.why) == (MovePhase.REFUSED, "b: Job news has an archive.")
    assert next_step(refused, held()) == Step.RELEASE


def test_a_move_ends_when_all_chunks_are_applied():
    copying = replace(MOVE, phase=MovePhase.COPYING)
    of_a = held(epoch=1, sent={"b": 2}, series="x")
    of_b = held(epoch=1, sent={})

    assert decide(copying, {"a": of_a, "b": replace(of_b, applied={"a": {"x": 1}})}, "ab", control="a") == copying
    assert decide(copying, {"a": of_a, "b": replace(of_b, applied={"a": {"before": 2}})}, "ab", control="a") == copying
    done = decide(copying, {"a": of_a, "b": replace(of_b, applied={"a": {"x": 2}})}, "ab", control="a")
    assert done.phase == MovePhase.DONE


def test_a_move_does_not_wait_for_a_lost_partition():
    three = Move(change_owner(SlotMap.even("abc"), range(10), ["b"], number=1), MovePhase.COPYING)

    without = leave_out(three, "b", "abc", number=2)

    assert (without.number, without.phase, without.to.slots_of("b")) == (2, MovePhase.COPYING, [])
    assert all(
        after == before for before, after in zip(three.to.owners, without.to.owners, strict=True) if before != "b"
    )
    others = {name: Report(2, 2, held={}, sent={}) for name in "ac"}
    assert decide(without, others, "abc", control="a").phase == MovePhase.DONE
    assert Move.from_json(without.as_json()) == without


@each_row("phase", list(MovePhase))
def test_a_move_and_a_report_survive_conversion_to_json(phase):
    move = replace(MOVE, phase=phase, why="because")
    report = held(RUNNING, sent={"b": 1}, applied={"b": {"x": 2}})

    assert Move.from_json(move.as_json()) == move
    assert Report.from_json(report.as_json()) == report


def test_the_map_of_a_move_has_all_slots():
    assert len(MOVE.to.owners) == SLOTS
