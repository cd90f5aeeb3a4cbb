"""
The effects of outcomes: the rows that a flush will write, calculated from the rows that it holds.

No I/O. `FlushPlan.end` gets each of the flush's own documents, and `FlushPlan.reference` each of their references.
`parameters` returns the result for the one statement that writes it (`jobs.queue.flushing.flush`).
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from jobs.connectors.repository.base import Ending, Outcome
from jobs.connectors.repository.freshness_goals import Goals
from jobs.lifecycle import endings as endings_of
from jobs.lifecycle.document import Action, Stage
from jobs.lifecycle.endings import Kind, kind_of_flip
from jobs.queue.discover import Again, New, discovered
from jobs.queue.flushing.hops import HopRules
from jobs.queue.flushing.recrawl import ANY_TIME, Intervals
from jobs.queue.sql.arrays import Hashes
from jobs.queue.sql.columns import columns_of
from jobs.queue.take import Claimed
from jobs.traps.quarantine import Quarantine

# A document: its hash, and its job.
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Partitioned:
    """
    The partitions of a job, as a flush needs them. `here` is this partition.

    `number` identifies the job in all partitions. `foreign` returns the other partition that has a host, by the name of
    its bin; None for an own host.
    """

    here: str
    number: int
    foreign: Callable[[str], str | None] = field(compare=False)


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The facts about a job that a flush needs."""

    id: int
    run_no: int
    repository: int
    tracks_depth: bool
    max_depth: int | None
    has_budget: bool
    # Ids of the outputs that hold documents (all but null outputs).
    outputs: tuple[int, ...]
    hops: HopRules | None = None
    # The type of the job's links that are not redirects. If there are several types, the first one.
    link_type: str = "link"
    is_full_scan: bool = True
    # The intervals of a continuous job. None: each document is read once a run.
    intervals: Intervals | None = None
    # The freshness goals of a continuous job. None: the job has no goals.
    goals: Goals | None = field(default=None, compare=False)
    specification_version: int = 0
    # The rules of this version of the specification, as a test of an identifier. None: the job has no rules.
    admits: Callable[[str], bool] | None = field(default=None, compare=False)
    # The format of the job's archive; "" without an archive.
    archive: str = ""
    # Number of versions of each document that are kept.
    kept_versions: int = 0
    # The partitions of a job that several databases crawl. None: this database has all of its documents.
    partitioned: Partitioned | None = None
    # True if a stage of the job's pipeline refuses documents, or refused some before.
    has_refusals: bool = False
    # True if first readings of documents are counted by groups of addresses; and the suspects that hold documents back.
    watches_traps: bool = field(default=False, compare=False)
    quarantine: Quarantine | None = field(default=None, compare=False)

    @property
    def configuration(self) -> str:
        """Return the prefix of document versions that were made under the job's present specification."""
        return str(self.specification_version)

    @property
    def loses_documents(self) -> bool:
        """True if a document that was discovered in this run may be dropped, so that a new reference matters again."""
        return self.intervals is not None and self.intervals.expire_after is not None


@dataclass(frozen=True, slots=True)
class Result:
    """One outcome and its claim. `lanes` maps a (seed, bin name) to its lane."""

    claimed: Claimed
    job: JobFacts
    outcome: Outcome
    lanes: Mapping[tuple[int, str], int] = field(default_factory=dict)


class Named(NamedTuple):
    """
    A reference with the least depth in this flush, from the document `source`; `is_target` is true if a redirect leads
    to its document.
    """

    job: JobFacts
    identifier: str
    lane_id: int | None
    depth: int
    redirects: int
    is_target: bool
    source: str


class Own(NamedTuple):
    """The new values of the row of a processed document."""

    hash: str
    job_id: int
    stage: int
    run_no: int
    outcome: int
    code: str
    version: str
    validators: str
    indexed_before: bool
    depth: int
    check_time: dt.datetime | None
    retried: bool
    requested: bool
    given_back: bool
    action: int
    changed_at: dt.datetime | None
    response_ms: int | None
    endings: int


@dataclass(frozen=True, slots=True)
class NextLook:
    """Time and purpose of a document's next check; for continuous jobs also the time of its last change."""

    check_time: dt.datetime | None = None
    action: Action = Action.PROCESS
    changed_at: dt.datetime | None = None


NO_NEXT_LOOK: Final = NextLook()
# Kinds of differences from the run before whose documents are counted for all hosts together.
_NOT_BY_HOST: Final = frozenset({Kind.NEW, Kind.CHANGED})


# The fields of `Own`, as the statement names its lists of values.
_OWN_COLUMNS: Final = (
    "hashes",
    "jobs",
    "stages",
    "runs",
    "outcomes",
    "codes",
    "versions",
    "validators",
    "indexed",
    "depths",
    "check_times",
    "retried",
    "requested",
    "given_back",
    "actions",
    "changed_at",
    "response_ms",
    "endings",
)


def give_up(results: Sequence[Result]) -> tuple[list[Result], dict[int, str]]:
    """
    Turn retries that reached their limit into failures; return all results, and the jobs that must stop.

    Each of these jobs has its reason, in ManifoldCF's words.
    """
    reasons: dict[int, str] = {}
    given: list[Result] = []
    for result in results:
        outcome = result.outcome
        if outcome.ending == Ending.RETRY and _is_enough(outcome):
            if outcome.retry_limit is not None and outcome.retry_limit.aborts_job:
                reasons.setdefault(
                    result.job.id,
                    "Repeated service interruptions - failure processing document "
                    f"{outcome.document.identifier}: {outcome.code}",
                )
            given.append(replace(result, outcome=replace(outcome, ending=Ending.FAILED)))
        else:
            given.append(result)
    return given, reasons


def left_to_clean_up(result: Result, row: Any) -> Result:
    """
    Return the result of a document that the rules of its job refuse and that outputs hold, as the flush writes it.

    The document keeps its older run, so it counts as not reached, and the clean-up removes it after the delete guard.
    In a continuous job, whose run does not end, the document leaves the outputs immediately.
    """
    outcome = result.outcome
    if not outcome.is_refused:
        return result
    if result.job.intervals is not None or not row.indexed_before:
        return replace(result, outcome=replace(outcome, is_refused=False))
    document = outcome.document
    kept = replace(outcome, removes=False, version=document.version, validators=document.validators)
    return replace(result, outcome=kept)


def _is_enough(outcome: Outcome) -> bool:
    limit, document = outcome.retry_limit, outcome.document
    if limit is None:
        return False
    too_often = limit.attempts is not None and document.failures_of(limit.cause) + 1 >= limit.attempts
    too_long = limit.seconds is not None and document.failing_for + outcome.retry_after > limit.seconds
    return too_often or too_long


class FlushPlan:
    """The writes of one flush, collected row by row and passed to the database by column."""

    def __init__(
        self,
        *,
        now: dt.datetime,
        closed_gates: Set[str] = frozenset(),
        planned: Mapping[Key, dt.timedelta] = MappingProxyType({}),
    ) -> None:
        self.now = now
        # The time until the next look at each document with a freshness goal.
        self.planned = planned
        self.closed_gates = closed_gates
        self.new: list[New] = []
        self.again: list[Again] = []
        self.own: list[Own] = []
        # For each document with links: its key, the numbers of its first and last link in `targets`, and True for a
        # redirect.
        self.links: list[tuple[str, int, int, int, bool]] = []
        self.targets = Hashes()
        # Documents that wait, each with its gate.
        self.gated: dict[Key, str] = {}
        self.refunds: dict[int, int] = {}
        self.counts: dict[tuple[int, int, int, str, int, int, str], int] = {}
        # An example document for each count of failures.
        self.samples: dict[tuple[int, int, int, str, int, int, str], str] = {}
        # An example document for each count of documents that differ from the run before.
        self.examples: dict[tuple[int, int, int, str, int, int, str], str] = {}
        self.woken: set[int] = set()
        self.waiting: dict[int, dt.datetime] = {}

    def count(
        self, job: int, lane: int, run: int, measure: str, stage: int, outcome: int, code: str, amount: int
    ) -> None:
        key = (job, lane, run, measure, stage, outcome, code)
        self.counts[key] = self.counts.get(key, 0) + amount

    def move(
        self, row: Any, *, job: JobFacts, stage: int, outcome: int = 0, code: str = "", run_no: int | None = None
    ) -> None:
        """Count a document out of its old stage and into its new one, in the run of its job or in another run."""
        done = row.stage == Stage.DONE
        old = (row.outcome, row.result_code) if done else (0, "")
        self.count(job.id, row.lane_id, row.run_no, "stage", row.stage, old[0], old[1], -1)
        self.count(job.id, row.lane_id, job.run_no if run_no is None else run_no, "stage", stage, outcome, code, 1)

    def end(self, result: Result, row: Any, *, loops: bool, is_outside: bool = False) -> None:
        """
        Add one of the flush's own documents. `is_outside` is True if the document is farther away than its job allows.
        """
        outcome, job, key = result.outcome, result.job, result.claimed.document.hash
        if outcome.bytes_read:
            self.count(job.id, row.lane_id, job.run_no, "bytes", 0, 0, "", outcome.bytes_read)
        code = "REDIRECT_LOOP" if loops else outcome.code
        held = {
            Ending.INDEXED: True,
            Ending.UNCHANGED: True,
        }.get(outcome.ending, row.indexed_before and not outcome.removes)
        given_back = job.has_budget and not outcome.requested
        if not outcome.ending.is_final:
            retries = outcome.ending == Ending.RETRY
            check_time = self.now + dt.timedelta(seconds=outcome.retry_after) if retries else None
            self._own(
                result,
                row,
                stage=Stage.PENDING,
                ending=row.outcome,
                code=row.result_code,
                held=held,
                next_look=NextLook(check_time, Action.PROCESS, row.changed_at),
                endings=row.endings,
            )
            self.move(row, job=job, stage=Stage.PENDING)
            if check_time is not None:
                self._is_due_later(row.lane_id, check_time)
            elif outcome.gate in self.closed_gates:
                self.gated[key, job.id] = outcome.gate
            else:
                self.woken.add(row.lane_id)
            return
        ending, code = _remembered(row, job=job, ending=int(outcome.ending), code=code)
        stage = Stage.HOPCOUNT_REMOVED if is_outside else Stage.PENDING if row.rescan else Stage.DONE
        is_left = outcome.is_refused and stage == Stage.DONE
        run_no = job.run_no - 1 if is_left else job.run_no
        next_look = NO_NEXT_LOOK
        if job.intervals is not None and stage == Stage.DONE:
            next_look = self._next_look(outcome, row, intervals=job.intervals, planned=self.planned.get((key, job.id)))
            if next_look.check_time is not None:
                self._is_due_later(row.lane_id, next_look.check_time)
        endings = row.endings
        if stage != Stage.HOPCOUNT_REMOVED and not is_left:
            endings = self._compare_with_last_run(result, row, ending=ending, code=code)
        self._own(
            result,
            row,
            stage=stage,
            ending=ending,
            code=code,
            held=held,
            given_back=given_back,
            next_look=next_look,
            endings=endings,
            run_no=run_no,
        )
        if stage == Stage.DONE:
            self.move(row, job=job, stage=stage, outcome=ending, code=code, run_no=run_no)
            if ending == Ending.FAILED:
                self.samples[job.id, row.lane_id, job.run_no, "stage", stage, ending, code] = key
        else:
            self.move(row, job=job, stage=stage)
            if stage == Stage.PENDING:
                self.woken.add(row.lane_id)
        if given_back:
            self.refunds[job.id] = self.refunds.get(job.id, 0) + 1
        if outcome.references is not None:
            first = len(self.targets) + 1
            self.targets.extend([named.hash for named in outcome.references])
            self.links.append((key, job.id, first, len(self.targets), outcome.code == "REDIRECT"))

    def _compare_with_last_run(self, result: Result, row: Any, *, ending: int, code: str) -> int:
        """
        Return the value of `endings` to store for a document that ends. Count the document if its result differs from
        the result before this run.
        """
        job, document = result.job, result.claimed.document
        endings, flips = endings_of.end(
            row.endings,
            run_no=job.run_no,
            result=endings_of.result_of(ending, code),
            is_indexed=row.indexed_before,
        )
        if job.run_no <= 1 or job.intervals is not None:
            # The job has no earlier run, or its runs never end.
            return endings
        for before, after, amount in flips:
            # New and changed documents are not counted by host, because all documents of a run may be new or changed.
            lane = 0 if kind_of_flip(before, after) in _NOT_BY_HOST else row.lane_id
            said = code if amount > 0 else endings_of.code_of(after)
            key = (job.id, lane, job.run_no, "differs", before, after, said)
            self.counts[key] = self.counts.get(key, 0) + amount
            if amount > 0:
                self.examples.setdefault(key, document.identifier)
        return endings

    def _next_look(self, outcome: Outcome, row: Any, *, intervals: Intervals, planned: dt.timedelta | None) -> NextLook:
        changed_at = self.now if outcome.ending == Ending.INDEXED or row.changed_at is None else row.changed_at
        check_time, action = intervals.next_look(
            now=self.now,
            changed_at=changed_at,
            originated_at=outcome.originated_at,
            bounds=outcome.schedule_bounds or ANY_TIME,
            planned=planned,
        )
        return NextLook(check_time, action, changed_at)

    def _is_due_later(self, lane_id: int, at: dt.datetime) -> None:
        if lane_id not in self.waiting or at < self.waiting[lane_id]:
            self.waiting[lane_id] = at

    def _own(
        self,
        result: Result,
        row: Any,
        *,
        stage: int,
        ending: int,
        code: str,
        held: bool,
        next_look: NextLook,
        endings: int,
        given_back: bool = False,
        run_no: int | None = None,
    ) -> None:
        outcome = result.outcome
        self.own.append(
            Own(
                hash=result.claimed.document.hash,
                job_id=result.job.id,
                stage=int(stage),
                run_no=result.job.run_no if run_no is None else run_no,
                outcome=ending,
                code=code,
                version=outcome.version,
                # A document that is read again because of a shorter path must be read unconditionally.
                validators="" if row.rescan else outcome.validators,
                indexed_before=held,
                depth=row.depth,
                check_time=next_look.check_time,
                retried=outcome.ending == Ending.RETRY,
                requested=outcome.requested,
                given_back=given_back,
                action=int(next_look.action),
                changed_at=next_look.changed_at,
                response_ms=outcome.response_ms,
                endings=endings,
            )
        )

    def reference(self, key: Key, named: Named, row: Any, *, ended: Result | None, is_outside: bool = False) -> None:
        """
        Add a document to which the flush's documents refer. `is_outside` is true if it is farther away than its job
        allows.
        """
        job = named.job
        if row is None:
            # A stored link to a dropped document has no effect: it has no identifier.
            if named.lane_id is not None and named.identifier:
                stage = Stage.HOPCOUNT_REMOVED if is_outside else Stage.PENDING
                self.new.append(
                    New(
                        key[0],
                        job.id,
                        named.lane_id,
                        named.identifier,
                        job.run_no,
                        named.depth,
                        named.redirects,
                        int(stage),
                        named.source,
                    )
                )
                if stage == Stage.PENDING:
                    self.woken.add(named.lane_id)
            return
        if ended is not None:
            # The document references itself, or ended in this same flush: only a shorter path matters.
            self._come_nearer_after_ending(named, row, ended)
            return
        if is_outside:
            self._keep_outside(named, row)
            return
        nearer = job.tracks_depth and named.depth < row.depth
        # At the old depth, its links may not have been followed, so no links are stored. An answer 304 would not bring
        # them back.
        was_at_the_end = nearer and (job.max_depth is None or row.depth >= job.max_depth)
        if row.run_no < job.run_no and row.stage in {Stage.PENDING, Stage.DONE}:
            self._again(
                named,
                row,
                stage=Stage.PENDING,
                depth=named.depth,
                redirects=named.redirects,
                revived=True,
                unconditional=was_at_the_end,
            )
            self.move(row, job=job, stage=Stage.PENDING)
            self.woken.add(row.lane_id)
        elif row.stage == Stage.HOPCOUNT_REMOVED or (nearer and row.stage == Stage.DONE):
            self._again(named, row, stage=Stage.PENDING, depth=named.depth, revived=True, unconditional=True)
            self.move(row, job=job, stage=Stage.PENDING)
            self.woken.add(row.lane_id)
        elif nearer and row.stage == Stage.PENDING:
            self._again(named, row, stage=row.stage, depth=named.depth, unconditional=was_at_the_end)
        elif nearer and row.stage == Stage.ACTIVE:
            self._again(named, row, stage=row.stage, depth=named.depth, rescan=True, unconditional=was_at_the_end)
        elif row.stage == Stage.BEING_CLEANED and not row.rescan:
            # The worker that is about to remove the document must not do so.
            self._again(named, row, stage=row.stage, depth=named.depth, rescan=True)
            self.move(row, job=job, stage=Stage.BEING_CLEANED)

    def _keep_outside(self, named: Named, row: Any) -> None:
        """
        Move a document into this run without reading it. If the document is claimed, the flush of its outcome decides
        about it.
        """
        job = named.job
        if row.stage in {Stage.PENDING, Stage.DONE} or (
            row.stage == Stage.HOPCOUNT_REMOVED and row.run_no < job.run_no
        ):
            self._again(named, row, stage=Stage.HOPCOUNT_REMOVED, depth=named.depth, unconditional=True)
            self.move(row, job=job, stage=Stage.HOPCOUNT_REMOVED)
            if row.indexed_before:
                self.woken.add(row.lane_id)

    def _come_nearer_after_ending(self, named: Named, row: Any, ended: Result) -> None:
        if not named.job.tracks_depth or named.depth >= row.depth or row.rescan:
            return
        index = next(i for i, own in enumerate(self.own) if (own.hash, own.job_id) == (row.hash.hex, row.job_id))
        own = self.own[index]
        if own.stage != Stage.DONE:
            return
        self.own[index] = own._replace(stage=int(Stage.PENDING), depth=named.depth, validators="")
        job = ended.job
        self.count(job.id, row.lane_id, job.run_no, "stage", Stage.DONE, own.outcome, own.code, -1)
        self.count(job.id, row.lane_id, job.run_no, "stage", Stage.PENDING, 0, "", 1)
        self.woken.add(row.lane_id)

    def _again(
        self,
        named: Named,
        row: Any,
        *,
        stage: int,
        depth: int,
        redirects: int | None = None,
        rescan: bool = False,
        revived: bool = False,
        unconditional: bool = False,
    ) -> None:
        self.again.append(
            Again(
                hash=row.hash.hex,
                job_id=row.job_id,
                stage=int(stage),
                run_no=named.job.run_no,
                depth=depth,
                redirects=min(row.redirects, named.redirects) if redirects is None else redirects,
                rescan=rescan,
                revived=revived,
                unconditional=unconditional,
                forgets=row.run_no < named.job.run_no,
            )
        )

    def parameters(self) -> dict[str, Any]:
        """Return the collected rows by column, as parameters of the statement."""
        facts: dict[str, Any] = {"now": self.now}
        facts |= discovered(self.new, self.again)
        facts |= columns_of(self.own, tuple(f"own_{name}" for name in _OWN_COLUMNS))
        facts |= columns_of(self.links, ("link_hashes", "link_jobs", "link_firsts", "link_lasts", "link_redirects"))
        facts["link_targets"] = self.targets
        facts |= {"refund_jobs": list(self.refunds), "refund_amounts": list(self.refunds.values())}
        moved = [
            (*key, amount, self.samples.get(key), self.examples.get(key, ""))
            for key, amount in self.counts.items()
            if amount
        ]
        names = ("jobs", "lanes", "runs", "measures", "stages", "outcomes", "codes", "amounts", "samples", "examples")
        return facts | columns_of(moved, tuple(f"count_{name}" for name in names))


def _remembered(row: Any, *, job: JobFacts, ending: int, code: str) -> tuple[int, str]:
    """
    Return the outcome to store: a document indexed in this run stays indexed when a second check finds it unchanged.
    """
    if ending == Ending.UNCHANGED and row.run_no == job.run_no and row.outcome == Ending.INDEXED:
        return int(Ending.INDEXED), row.result_code
    return ending, code
