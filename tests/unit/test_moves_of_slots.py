"""Moves of slots between partitions, as a state machine: crashes, pauses and restores between all steps."""

import random
from collections import Counter
from copy import deepcopy
from dataclasses import replace

import pytest

from jobs.partitions.moving import (
    HeldJob,
    Move,
    MovePhase,
    Report,
    Step,
    are_held_together,
    change_owner,
    decide,
    learn,
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


@each_row("phase", list(MovePhase))
def test_a_move_and_a_report_travel_as_json(phase):
    move = replace(MOVE, phase=phase, why="because")
    report = held(RUNNING, sent={"b": 1}, applied={"b": {"x": 2}})

    assert Move.from_json(move.as_json()) == move
    assert Report.from_json(report.as_json()) == report


# --- A simulation ------------------------------------------------------------------------------------


SLOTS_HERE, DOCUMENTS = 12, 40


def slot_of(document):
    return document % SLOTS_HERE


class Partition:
    """
    The database of one partition: all that a crash leaves. Each step below is one transaction.

    `documents` tells which of them were fetched. `claimed` are with its workers.
    """

    def __init__(self, name, owners):
        self.name, self.series = name, f"{name}0"
        self.map = SlotMap(0, owners)
        self.documents = {}
        self.is_held, self.report, self.move = False, Report(0, 0), None
        self.claimed, self.chunks, self.amounts = set(), {}, Counter()
        self.applied, self.references, self.received = {}, {}, Counter()

    @property
    def sent(self):
        return {target: len(rows) for target, rows in self.references.items()}

    def has(self, document):
        return self.map.owners[slot_of(document)] == self.name


class World:
    """
    Partitions that work, move slots and exchange rows, in an order of chance.

    A killed process repeats its step later, so a crash is a step that is not taken. Connections keep their order, and
    each may stand still for any time.
    """

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.names = "abcd"[: self.chance.randint(2, 4)]
        owners = tuple(self.names[slot % len(self.names)] for slot in range(SLOTS_HERE))
        self.all = {name: Partition(name, owners) for name in self.names}
        self.streams = {(source, target): [] for source in self.names for target in self.names if source != target}
        self.reports, self.fetched, self.lost = {}, Counter(), set()
        self.restores, self.was_restored, self.backups = self.chance.choice((0, 0, 0, 1, 2)), False, {}
        for document in self.chance.sample(range(DOCUMENTS), 5):
            self.refer(self.all["a"], document)
        for _ in range(self.chance.randint(0, 150)):
            self.step()
        given = self.chance.sample(range(SLOTS_HERE), self.chance.randint(1, 6))
        control = self.all["a"]
        control.move = Move(change_owner(control.map, given, self.chance.sample(self.names, 2), number=1))
        self.tell_move()

    # --- The exchange ---

    def send(self, source, target, kind, body):
        if source == target:
            self.receive(source, target, kind, body)
        else:
            self.streams[source, target].append((kind, body))

    def receive(self, source, target, kind, body):
        at = self.all[target]
        if kind == "move":
            before, at.move = at.move, learn(at.move, [body], leads=target == "a")
            if at.move != before and target == "a":
                self.tell_move()
            elif at.move != before:
                self.send(target, "a", "move", at.move)
        elif kind == "report":
            self.reports[source] = body
        elif kind == "reference":
            at.received[source] += 1
            self.refer(at, body)
        else:
            series, number, documents = body
            counts = at.applied.setdefault(source, Counter())
            if number == counts[series]:
                counts[series] += 1
                at.documents = dict(documents) | at.documents

    def tell_move(self):
        for name in self.names[1:]:
            self.send("a", name, "move", self.all["a"].move)

    # --- The steps, each one transaction ---

    def work(self, at):
        """Take a document, or end one, which names others."""
        waiting = [document for document, is_fetched in at.documents.items() if not is_fetched]
        if at.claimed:
            document = at.claimed.pop()
            at.documents[document] = True
            self.fetched[document] += 1
            for named in self.chance.sample(range(DOCUMENTS), self.chance.randint(0, 3)):
                self.refer(at, named)
        elif waiting and not at.is_held:
            document = self.chance.choice(waiting)
            assert self.was_restored or at.has(document)
            at.claimed.add(document)

    def refer(self, at, document):
        """Name a document: an own one, or one of another partition."""
        target = at.map.owners[slot_of(document)]
        if target == at.name:
            at.documents.setdefault(document, False)
        else:
            at.references.setdefault(target, []).append(document)
            self.send(at.name, target, "reference", document)

    def advance(self, at):
        step = next_step(at.move, at.report)
        number = at.move.number if at.move else 0
        if step == Step.RELEASE:
            at.is_held = False
        elif step == Step.HOLD:
            at.is_held = True
            job = HeldJob(1, is_active=True, sent=dict(at.sent), applied=dict(at.received))
            jobs = None if at.claimed else {"7": job}
            at.report = replace(at.report, number=number, epoch=at.map.epoch, series=at.series, held=jobs, sent=None)
        elif step == Step.WAIT and at.report.held:
            job = HeldJob(1, is_active=True, sent=dict(at.sent), applied=dict(at.received))
            at.report = replace(at.report, held={"7": job})
        elif step == Step.ADOPT:
            assert at.is_held
            assert not at.claimed
            at.map = at.move.to
            at.report = replace(at.report, epoch=number, series=at.series, sent=None)
        elif step == Step.SEND:
            foreign = [document for document in at.documents if not at.has(document)]
            if foreign:
                target = at.map.owners[slot_of(foreign[0])]
                chosen = [one for one in foreign if at.map.owners[slot_of(one)] == target]
                chosen = self.chance.sample(chosen, self.chance.randint(1, len(chosen)))
                chunk = tuple((document, at.documents.pop(document)) for document in chosen)
                at.chunks[at.series, target, at.amounts[target]] = chunk
                self.send(at.name, target, "chunk", (at.series, at.amounts[target], chunk))
                at.amounts[target] += 1
            else:
                at.report = replace(at.report, series=at.series, sent=dict(at.amounts))
        at.report = replace(at.report, applied={source: dict(counts) for source, counts in at.applied.items()})
        self.send(at.name, "a", "report", at.report)

    def lead(self):
        control = self.all["a"]
        if control.move is None:
            return
        after = decide(control.move, self.reports, self.names, control="a")
        if after != control.move:
            control.move = after
            self.tell_move()
            if after.phase == MovePhase.DONE and not self.was_restored:
                self.check()

    def check(self):
        """Check that all documents are where the map of the move says, and that none was fetched twice or lost."""
        to = self.all["a"].move.to
        for one in self.all.values():
            assert one.map == to
            assert all(one.has(document) for document in one.documents)
        if not self.was_restored:
            assert max(self.fetched.values(), default=0) <= 1
        assert set(self.fetched) - self.lost <= set().union(*(one.documents for one in self.all.values()))

    # --- Restores ---

    def back_up(self, at):
        self.backups[at.name] = deepcopy(at)

    def restore(self, at):
        """
        Go back to a backup. Both directions of the exchange begin again, with a copy of all rows that still exist.
        A control partition may have forgotten the move, and learns it from the others.

        Documents that only the lost database had are lost with it, and found again by a later run.
        """
        back = self.backups.get(at.name)
        if back is None or not self.restores:
            return
        self.restores -= 1
        self.was_restored = True
        # Its workers have ended, too.
        back.series, back.claimed, back.amounts, back.received = at.series + "'", set(), Counter(), Counter()
        self.all[at.name] = back
        if at.name == "a":
            self.reports = {}
        for other in set(self.names) - {at.name}:
            source = self.all[other]
            source.received[at.name] = 0
            self.streams[at.name, other] = self.rows_for(back, other)
            self.streams[other, at.name] = self.rows_for(source, at.name)
        travelling = [dict(body[2]) for stream in self.streams.values() for kind, body in stream if kind == "chunk"]
        self.lost = set(self.fetched).difference(*travelling, *(one.documents for one in self.all.values()))

    def rows_for(self, source, target):
        chunks = [
            ("chunk", (series, number, chunk))
            for (series, name, number), chunk in source.chunks.items()
            if name == target
        ]
        references = [("reference", slot) for slot in source.references.get(target, ())]
        move = [("move", source.move)] if source.move is not None and "a" in (source.name, target) else []
        report = [("report", source.report)] if target == "a" else []
        return move + report + references + chunks

    # --- The whole ---

    def step(self):
        at = self.all[self.chance.choice(self.names)]
        arriving = [pair for pair, stream in self.streams.items() if stream]
        lot = self.chance.random()
        if arriving and lot < 0.45:
            source, target = self.chance.choice(arriving)
            self.receive(source, target, *self.streams[source, target].pop(0))
        elif lot < 0.6:
            self.work(at)
        elif lot < 0.9:
            self.advance(at)
        elif lot < 0.97:
            self.lead()
        elif lot < 0.985:
            self.back_up(at)
        else:
            self.restore(at)

    @property
    def is_known(self):
        """True if a partition knows the move: a restore may forget it before another one hears of it."""
        return any(one.move is not None for one in self.all.values())

    @property
    def is_over(self):
        return (
            all(one.move is None or one.move.phase.is_over for one in self.all.values())
            and not any(self.streams.values())
            and not any(one.is_held or next_step(one.move, one.report) != Step.RELEASE for one in self.all.values())
        )


@each_row("seed", range(300))
def test_every_move_ends_and_leaves_each_document_in_its_partition(seed):
    world = World(seed)
    for _ in range(5_000):
        world.step()
        if world.is_over:
            break
    else:
        pytest.fail("the move did not end")

    if world.is_known:
        world.check()


def test_the_map_of_a_move_has_all_slots():
    assert len(MOVE.to.owners) == SLOTS
