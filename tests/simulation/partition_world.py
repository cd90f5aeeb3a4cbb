"""
Partitions that crawl one run, move slots, are restored and are lost, in a random order.

All decisions are those of the product (`jobs.partitions.moving`, `jobs.partitions.end_of_run`); the databases, the exchange and
the order of events are simulated. A killed process repeats its step later, so a crash is a step that is not taken.
Connections keep their order, and each may stand still for any time.
"""

import random
from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from typing import Any

from jobs.partitions.end_of_run import Figures, has_ended, is_settled
from jobs.partitions.moving import (
    HeldJob,
    Move,
    MovePhase,
    Report,
    Step,
    change_owner,
    decide,
    leave_out,
    newest_move,
    next_step,
)
from tests.simulation.checker import Violation
from tests.simulation.partition_rows import SLOTS_HERE, Partition, PartitionRules, require

_DOCUMENTS = 40
# Number of steps after which a history must be over.
_STEPS = 6_000
# Number of steps for which one connection transfers nothing.
_STANDS_STILL = 700


class PartitionWorld:
    """Partitions that crawl, move slots, exchange rows, are restored and are lost, in a random order."""

    def __init__(self, seed: int, rules: PartitionRules, *, keeps_lines: bool = False) -> None:
        self.chance, self.rules = random.Random(seed), rules
        self.lines: list[str] | None = [] if keeps_lines else None
        self.names = "abcd"[: self.chance.randint(2, 4)]
        owners = tuple(self.names[slot % len(self.names)] for slot in range(SLOTS_HERE))
        self.all = {name: Partition(name, owners) for name in self.names}
        self.streams: dict[tuple[str, str], list[tuple[str, Any]]] = {
            (source, target): [] for source in self.names for target in self.names if source != target
        }
        self.reports: dict[str, Report] = {}
        self.answers: dict[str, tuple[int, Figures]] = {}
        self.last_round: dict[str, Figures] | None = None
        self.has_run_ended = False
        self.fetched: Counter[int] = Counter()
        self.lost: set[int] = set()
        self.restores = self.chance.choice((0, 0, 0, 1, 2))
        self.losses = self.chance.choice((0, 0, 1))
        self.was_restored = False
        self.is_without = ""
        self.backups: dict[str, Partition] = {}
        self.moves = 0
        self.steps = 0
        # A connection that transfers nothing at first.
        self.slow = self.chance.choice(list(self.streams)) if self.chance.random() < 0.3 else None
        for document in self.chance.sample(range(_DOCUMENTS), 5):
            self._refer(self.all["a"], document)
        for _ in range(self.chance.randint(0, 150)):
            self.step()
        given = self.chance.sample(range(SLOTS_HERE), self.chance.randint(1, 6))
        control = self.all["a"]
        control.move = Move(change_owner(control.map, given, self.chance.sample(self.names, 2), number=1))
        self._send_move()

    def log(self, line: str) -> None:
        if self.lines is not None:
            self.lines.append(line)

    def run(self) -> None:
        """Take steps until the move is over and the run has ended. Then check all that must hold."""
        for _ in range(_STEPS):
            self.step()
            if self.is_over:
                break
        else:
            raise Violation("the move or the run does not end")
        if self._is_known:
            self._check_places()
        if not self.was_restored and not self.is_without:
            self._check_run()

    # --- The exchange ---

    def _send(self, source: str, target: str, kind: str, body: Any) -> None:
        if source == target:
            self._receive(source, target, kind, body)
        elif (source, target) in self.streams:
            self.streams[source, target].append((kind, body))

    def _receive(self, source: str, target: str, kind: str, body: Any) -> None:
        at = self.all[target]
        if kind == "move":
            before, at.move = at.move, newest_move(at.move, [body], leads=target == "a")
            if at.move != before and target == "a":
                self._send_move()
            elif at.move != before and self.rules.send_back:
                self._send(target, "a", "move", at.move)
        elif kind == "report":
            self.reports[source] = body
        elif kind == "round":
            at.round = body
        elif kind == "answer":
            self.answers[source] = body
        elif kind == "reference":
            at.received[source] += 1
            self._refer(at, body)
        else:
            series, number, documents = body
            counts = at.applied.setdefault(source, Counter())
            if number == counts[series]:
                counts[series] += 1
                self._apply(at, documents)

    def _apply(self, at: Partition, documents: Iterable[tuple[int, bool]]) -> None:
        came = dict(documents)
        fetched = {document for document, is_fetched in at.documents.items() if is_fetched}
        at.documents = came | at.documents if self.rules.existing_stay else at.documents | came
        require(all(at.documents[document] for document in fetched), "a fetched document waits again")

    def _send_move(self) -> None:
        for name in self.names[1:]:
            self._send("a", name, "move", self.all["a"].move)

    # --- The crawl ---

    def _work(self, at: Partition) -> None:
        """Claim a waiting document, or finish a claimed one, which links to others."""
        waiting = [document for document, is_fetched in at.documents.items() if not is_fetched]
        if at.claimed:
            document = at.claimed.pop()
            at.documents[document] = True
            self.fetched[document] += 1
            for named in self.chance.sample(range(_DOCUMENTS), self.chance.randint(0, 3)):
                self._refer(at, named)
        elif waiting and not at.is_held:
            document = self.chance.choice(waiting)
            require(self.was_restored or at.has(document), f"{at.name} asks a host that it does not have")
            at.claimed.add(document)

    def _refer(self, at: Partition, document: int) -> None:
        """Follow a link: store its document here, or send a reference to the partition that owns the document."""
        target = at.owner_of(document)
        if target == at.name:
            at.documents.setdefault(document, False)
        else:
            at.references.setdefault(target, []).append(document)
            self._send(at.name, target, "reference", document)

    def _lead_run(self) -> None:
        """Answer a round of questions, and evaluate it in the control partition if all have answered."""
        for at in self.all.values():
            if at.name != "a" and self.chance.random() < 0.5:
                self._send(at.name, "a", "answer", (at.round, at.figures))
        control = self.all["a"]
        answered = {name: figures for name, (number, figures) in self.answers.items() if number == control.round}
        if self.has_run_ended or control.is_held or len(answered) < len(self.names) - 1:
            return
        figures = {**answered, "a": control.figures}
        before = self.last_round
        if not self.rules.settled_end:
            figures = {name: Figures(one.quiet, {}, {}) for name, one in figures.items()}
            before = before and {name: Figures(one.quiet, {}, {}) for name, one in before.items()}
        if has_ended(before, figures):
            self.has_run_ended = True
            self.log("the run ends")
            if not self.was_restored:
                self._check_run()
            return
        self.last_round = figures if is_settled(figures) else None
        control.round += 1
        for name in self.names[1:]:
            self._send("a", name, "round", control.round)

    # --- The move ---

    def _advance(self, at: Partition) -> None:
        step = next_step(at.move, at.report)
        number = at.move.number if at.move else 0
        if step == Step.RELEASE:
            at.is_held = False
            if at.move is not None and at.move.phase == MovePhase.DONE:
                at.chunks = {}
        elif step == Step.HOLD:
            at.is_held = True
            job = HeldJob(1, is_active=True, sent=dict(at.sent), applied=dict(at.received))
            jobs = None if at.claimed and self.rules.hold else {"7": job}
            at.report = replace(at.report, number=number, epoch=at.map.epoch, series=at.series, held=jobs, sent=None)
        elif step == Step.WAIT and at.report.held:
            job = HeldJob(1, is_active=True, sent=dict(at.sent), applied=dict(at.received))
            at.report = replace(at.report, held={"7": job})
        elif step == Step.ADOPT:
            assert at.move is not None
            require(at.is_held and not at.claimed, f"{at.name} adopts a map while documents are in progress")
            at.map, at.amounts = at.move.to, Counter()
            at.series = f"{at.series.partition('@')[0]}@{number}"
            at.report = replace(at.report, epoch=number, series=at.series, sent=None)
            self.log(f"{at.name} works by map {number}")
        elif step == Step.SEND:
            self._send_chunk(at)
        at.report = replace(at.report, applied={source: dict(counts) for source, counts in at.applied.items()})
        self._send(at.name, "a", "report", at.report)

    def _send_chunk(self, at: Partition) -> None:
        """Take a chunk back that was for a lost partition, or send documents of hosts that another one has."""
        assert at.move is not None
        if self.rules.take_back:
            for key in [key for key in at.chunks if key[1] in at.move.without]:
                self._apply(at, at.chunks.pop(key))
                return
        foreign = [document for document in at.documents if not at.has(document)]
        if not foreign:
            at.report = replace(at.report, series=at.series, sent=dict(at.amounts))
            return
        target = at.owner_of(foreign[0])
        chosen = [one for one in foreign if at.owner_of(one) == target]
        chosen = self.chance.sample(chosen, self.chance.randint(1, len(chosen)))
        chunk = tuple((document, at.documents.pop(document)) for document in chosen)
        if self.rules.keeps_chunks:
            at.chunks[at.series, target, at.amounts[target]] = chunk
        self._send(at.name, target, "chunk", (at.series, at.amounts[target], chunk))
        at.amounts[target] += 1

    def _lead_move(self) -> None:
        control = self.all["a"]
        if control.move is None:
            return
        reports = self.reports
        if not self.rules.settled_before_copies:
            reports = {name: self._without_references(report) for name, report in reports.items()}
        after = decide(control.move, reports, self.names, control="a")
        if after != control.move:
            control.move = after
            self.log(f"move {after.number}: {after.phase}")
            self._send_move()
            if after.phase == MovePhase.DONE:
                self.moves += 1
                if not self.was_restored:
                    self._check_places()

    def _without_references(self, report: Report) -> Report:
        held = {name: replace(job, sent={}, applied={}) for name, job in (report.held or {}).items()}
        return replace(report, held=None if report.held is None else held)

    # --- Restores and losses ---

    def _restore(self, at: Partition) -> None:
        """
        Go back to a backup. Both directions of the exchange begin again, with a copy of all rows that still exist.
        A control partition may have forgotten the move, and learns it from the others.

        Documents that only the lost database had are lost with it, and found again by a later run.
        """
        back = self.backups.get(at.name)
        if back is None or not self.restores or self.is_without:
            return
        self.log(f"{at.name} is restored")
        self.restores -= 1
        self.was_restored = True
        # The workers of the partition have ended, too.
        back.claimed, back.amounts, back.received = set(), Counter(), Counter()
        if self.rules.new_series:
            name, _, move = back.series.partition("@")
            marks = at.series.partition("@")[0].count("'") + 1
            back.series = f"{name.rstrip(chr(39))}{chr(39) * marks}" + (f"@{move}" if move else "")
        self.all[at.name] = back
        self.answers.pop(at.name, None)
        if at.name == "a":
            self.reports, self.answers, self.last_round = {}, {}, None
            back.round = max(one.round for one in self.all.values()) + 1
        for other in set(self.names) - {at.name}:
            source = self.all[other]
            source.received[at.name] = 0
            self.streams[at.name, other] = self._rows_for(back, other)
            self.streams[other, at.name] = self._rows_for(source, at.name)
        self._note_lost()

    def _rows_for(self, source: Partition, target: str) -> list[tuple[str, Any]]:
        if not self.rules.copy_of_rows:
            return []
        chunks = [
            ("chunk", (series, number, chunk))
            for (series, name, number), chunk in source.chunks.items()
            if name == target
        ]
        references = [("reference", slot) for slot in source.references.get(target, ())]
        sends_move = source.name == "a" or (target == "a" and self.rules.send_back)
        move = [("move", source.move)] if source.move is not None and sends_move else []
        report = [("report", source.report)] if target == "a" else []
        asked = [("round", source.round)] if source.name == "a" else []
        return [*move, *report, *asked, *references, *chunks]

    def _lose(self, name: str) -> None:
        """Lose a partition while documents are copied. The operator lets the move go on without it."""
        control = self.all["a"]
        if self.is_without or not self.losses or control.move is None or control.move.phase != MovePhase.COPYING:
            return
        if any(one.move is None or one.move.number != control.move.number for one in self.all.values()):
            # Partitions know different moves, as after a restore. The control partition must first receive the newest
            # move.
            return
        self.log(f"{name} is lost")
        self.is_without = name
        del self.all[name]
        self.streams = {pair: stream for pair, stream in self.streams.items() if name not in pair}
        self._note_lost()
        if self.rules.without_lost:
            control.move = leave_out(control.move, name, self.names, number=control.move.number + 1)
            self._send_move()

    def _note_lost(self) -> None:
        """Note the documents that neither a database nor a chunk has any more."""
        travelling = [dict(body[2]) for stream in self.streams.values() for kind, body in stream if kind == "chunk"]
        coming_back = [
            dict(chunk)
            for one in self.all.values()
            for (_, target, _), chunk in one.chunks.items()
            if target == self.is_without
        ]
        kept = [*travelling, *coming_back, *(one.documents for one in self.all.values())]
        self.lost = set(self.fetched).difference(*kept)

    # --- Checks ---

    def _check_places(self) -> None:
        """Check that all documents are where the map of the move says, and that none was fetched twice or lost."""
        move = self.all["a"].move
        assert move is not None
        owned: Counter[int] = Counter()
        for one in self.all.values():
            require(one.map == move.to, f"{one.name} does not work by the map of the move")
            require(all(one.has(document) for document in one.documents), f"{one.name} has documents of another host")
            owned.update(one.documents.keys())
        require(not owned or max(owned.values()) == 1, "two partitions have a document")
        if not self.was_restored:
            twice = [document for document, times in self.fetched.items() if times > 1 and document not in self.lost]
            require(not twice, "a document was fetched twice")
        require(set(self.fetched) - self.lost <= set(owned), "a document is lost")

    def _check_run(self) -> None:
        """Check that an ended run has left nothing: no document waits, and no reference is on its way."""
        if not self.has_run_ended:
            return
        require(all(one.figures.quiet for one in self.all.values()), "the run has ended, and documents wait")
        on_their_way = [body for stream in self.streams.values() for kind, body in stream if kind == "reference"]
        require(not on_their_way, "the run has ended, and references are on their way")

    # --- The whole ---

    def step(self) -> None:
        at = self.chance.choice(list(self.all.values()))
        self.steps += 1
        stands_still = self.steps < _STANDS_STILL
        arriving = [
            pair for pair, stream in self.streams.items() if stream and not (stands_still and pair == self.slow)
        ]
        lot = self.chance.random()
        if arriving and lot < 0.42:
            source, target = self.chance.choice(arriving)
            self._receive(source, target, *self.streams[source, target].pop(0))
        elif lot < 0.57:
            self._work(at)
        elif lot < 0.85:
            self._advance(at)
        elif lot < 0.91:
            self._lead_move()
        elif lot < 0.96:
            self._lead_run()
        elif lot < 0.98:
            self.backups[at.name] = deepcopy(at)
        elif lot < 0.99:
            self._restore(at)
        elif at.name != "a":
            self._lose(at.name)

    @property
    def _is_known(self) -> bool:
        """
        True if any partition knows the move. A restore of the control partition may forget it before the others receive
        it.
        """
        return any(one.move is not None for one in self.all.values())

    @property
    def is_over(self) -> bool:
        moves = [one.move for one in self.all.values()]
        return (
            all(move is None or move.phase.is_over for move in moves)
            and not any(one.is_held or next_step(one.move, one.report) != Step.RELEASE for one in self.all.values())
            and (self.has_run_ended or self.was_restored or bool(self.is_without))
            and not any(kind in {"move", "chunk"} for stream in self.streams.values() for kind, _ in stream)
        )
