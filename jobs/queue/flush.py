"""
Flushing: many outcomes become durable in one transaction, with all that they name.

The order of locks makes it safe beside every other flush: node fence; budgets of outcomes that give
their place back; then ALL existing rows that will be written, own and referenced, in one SELECT ORDER
BY hash; only then is anything decided. An outcome whose claim is gone is dropped, with its references
and its output. Absent references are inserted in the order of their hashes.
"""

import datetime as dt
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import Ending, Outcome
from jobs.lifecycle.document import Stage
from jobs.queue.order import AGAIN, FRESH
from jobs.queue.retrying import retried
from jobs.queue.rows import named_rows
from jobs.queue.take import Claimed
from nodes.fences import hold_node

# How far a chain of redirects is followed to find a loop; longer chains end as TOO_MANY_REDIRECTS.
_LONGEST_CHAIN: Final = 12


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What the flush must know of a job: does the depth of its documents matter, which outputs hold."""

    id: int
    run_no: int
    tracks_depth: bool
    max_depth: int | None
    has_budget: bool
    # Outputs that hold documents (all but null), by id.
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """One outcome with the claim that it was made under. `lanes` finds the lane of a (seed, bin name)."""

    claimed: Claimed
    job: JobFacts
    outcome: Outcome
    lanes: Mapping[tuple[int, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flushed:
    """
    What one flush did.

    `written` outcomes counted; `refused` had lost their claim. `lanes` got something to hand out and
    may have been dormant: they are to be woken after the commit. `named` are the (job, hash, depth)
    that are now certainly known. `deleted` counts documents removed from an output.
    """

    written: int = 0
    refused: int = 0
    lanes: frozenset[int] = frozenset()
    waiting_lanes: tuple[tuple[int, dt.datetime], ...] = ()
    named: list[tuple[JobFacts, str, int]] = field(default_factory=list)


# Locks: Budget by job.
_HOLD_BUDGETS: Final[LiteralString] = (
    "SELECT 1 FROM jobs_budget WHERE job_id = ANY(%(jobs)s) ORDER BY job_id FOR NO KEY UPDATE"
)

# The stored links of documents that were not read: they hold, and are referenced again.
_STORED_LINKS: Final[LiteralString] = """
SELECT link.hash, link.job_id, link.is_redirect, link.targets
  FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS source(hash, job_id)
  JOIN jobs_outlinks AS link ON link.hash = source.hash AND link.job_id = source.job_id
"""

# Own rows, and references that may have to change: those of an older run, and all where depth matters or a
# chain of redirects is followed. Of the others it is enough to know that they are there (`stage` is null).
# Locks: Node KEY SHARE (the node fence), then QueueItem by (hash, job).
_LOCK: Final[LiteralString] = """
WITH node AS MATERIALIZED (
    SELECT id FROM nodes_node WHERE id = %(worker)s AND status IN ('running', 'draining') FOR KEY SHARE
), wanted AS (
    SELECT * FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[], %(runs)s::int[]) AS wanted(hash, job_id, older_than)
), locked AS MATERIALIZED (
    SELECT item.hash, item.job_id, item.lane_id, item.batch_id, item.stage, item.run_no, item.depth, item.redirects,
           item.rescan, item.indexed_before, item.outcome, item.result_code, item.admitted_run
      FROM wanted JOIN jobs_queueitem AS item
        ON item.hash = wanted.hash AND item.job_id = wanted.job_id AND item.run_no < wanted.older_than
     WHERE EXISTS (SELECT FROM node)
     ORDER BY item.hash, item.job_id
       FOR NO KEY UPDATE OF item
)
SELECT * FROM locked
 UNION ALL
SELECT item.hash, item.job_id, item.lane_id, NULL, NULL, item.run_no, NULL, NULL, NULL, NULL, NULL, NULL, NULL
  FROM wanted JOIN jobs_queueitem AS item
    ON item.hash = wanted.hash AND item.job_id = wanted.job_id AND item.run_no >= wanted.older_than
 WHERE EXISTS (SELECT FROM node)
"""

# Where redirects lead from each target: (start, position in the chain, document). Read after the lock.
# What redirected in an older run, and has not been asked yet in this one, may lead elsewhere by now.
_CHAINS: Final[LiteralString] = f"""
WITH RECURSIVE chain AS (
    SELECT start.hash AS start, start.job_id, start.run_no, start.hash, 0 AS length
      FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[], %(runs)s::int[]) AS start(hash, job_id, run_no)
    UNION ALL
    SELECT chain.start, chain.job_id, chain.run_no, link.targets[1], chain.length + 1
      FROM chain
      JOIN jobs_outlinks AS link ON link.hash = chain.hash AND link.job_id = chain.job_id AND link.is_redirect
      JOIN jobs_queueitem AS item ON item.hash = chain.hash AND item.job_id = chain.job_id
           AND item.run_no = chain.run_no AND item.stage = {Stage.DONE:d}
     WHERE chain.length < {_LONGEST_CHAIN}
)
SELECT start, job_id, hash FROM chain
"""

# Everything that a flush changes, in rows that this transaction holds, and the absent references.
# Locks: the inserted QueueItems, by hash. What another flush inserted meanwhile is left alone; the
# caller looks at what came back.
_WRITE: Final[LiteralString] = f"""
WITH planted AS (
    INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, seq, action,
                                depth, redirects)
    SELECT hash, job_id, lane_id, identifier, {Stage.PENDING:d}, false, false, run_no, {FRESH}, 0, depth, redirects
      FROM unnest(%(new_hashes)s::uuid[], %(new_jobs)s::bigint[], %(new_lanes)s::bigint[], %(new_identifiers)s::text[],
                  %(new_runs)s::int[], %(new_depths)s::int[], %(new_redirects)s::int[])
           AS named(hash, job_id, lane_id, identifier, run_no, depth, redirects)
     ORDER BY hash, job_id
    ON CONFLICT (hash, job_id) DO NOTHING
    RETURNING hash, job_id, lane_id, run_no
), named AS (
    UPDATE jobs_queueitem AS item
       SET stage = named.stage, run_no = named.run_no, depth = named.depth, redirects = named.redirects,
           rescan = named.rescan,
           seq = CASE WHEN named.revived THEN {FRESH} ELSE item.seq END,
           check_time = CASE WHEN named.revived THEN NULL ELSE item.check_time END,
           failures = CASE WHEN named.revived THEN 0 ELSE item.failures END,
           failing_since = CASE WHEN named.revived THEN NULL ELSE item.failing_since END,
           outcome = CASE WHEN item.run_no < named.run_no THEN 0 ELSE item.outcome END,
           result_code = CASE WHEN item.run_no < named.run_no THEN '' ELSE item.result_code END,
           validators = CASE WHEN named.unconditional THEN '' ELSE item.validators END
      FROM unnest(%(ref_hashes)s::uuid[], %(ref_jobs)s::bigint[], %(ref_stages)s::int[], %(ref_runs)s::int[],
                  %(ref_depths)s::int[], %(ref_redirects)s::int[], %(ref_rescans)s::bool[], %(ref_revived)s::bool[],
                  %(ref_unconditional)s::bool[])
           AS named(hash, job_id, stage, run_no, depth, redirects, rescan, revived, unconditional)
     WHERE item.hash = named.hash AND item.job_id = named.job_id
), ended AS (
    UPDATE jobs_queueitem AS item
       SET stage = own.stage, run_no = own.run_no, batch_id = NULL, rescan = false, outcome = own.outcome,
           result_code = own.code, version = own.version, validators = own.validators,
           indexed_before = own.indexed_before, depth = own.depth,
           seq = CASE WHEN own.stage = {Stage.PENDING:d} AND own.check_time IS NULL THEN {AGAIN} END,
           check_time = own.check_time,
           failures = CASE WHEN own.retried THEN item.failures + 1 ELSE 0 END,
           failing_since = CASE WHEN own.retried THEN coalesce(item.failing_since, %(now)s) END,
           losses = 0, fetched_at = CASE WHEN own.requested THEN %(now)s ELSE item.fetched_at END,
           admitted_run = CASE WHEN own.given_back THEN 0 ELSE item.admitted_run END
      FROM unnest(%(own_hashes)s::uuid[], %(own_jobs)s::bigint[], %(own_stages)s::int[], %(own_runs)s::int[],
                  %(own_outcomes)s::int[], %(own_codes)s::text[], %(own_versions)s::text[], %(own_validators)s::text[],
                  %(own_indexed)s::bool[], %(own_depths)s::int[], %(own_check_times)s::timestamptz[],
                  %(own_retried)s::bool[], %(own_requested)s::bool[], %(own_given_back)s::bool[])
           AS own(hash, job_id, stage, run_no, outcome, code, version, validators, indexed_before, depth, check_time,
                  retried, requested, given_back)
     WHERE item.hash = own.hash AND item.job_id = own.job_id
), linked AS (
    INSERT INTO jobs_outlinks (hash, job_id, targets, is_redirect)
    SELECT hash, job_id, targets::uuid[], is_redirect
      FROM unnest(%(link_hashes)s::uuid[], %(link_jobs)s::bigint[], %(link_targets)s::text[], %(link_redirects)s::bool[])
           AS link(hash, job_id, targets, is_redirect)
    ON CONFLICT (hash, job_id) DO UPDATE SET targets = excluded.targets, is_redirect = excluded.is_redirect
), refunded AS (
    UPDATE jobs_budget AS budget SET admitted = budget.admitted - refund.amount
      FROM unnest(%(refund_jobs)s::bigint[], %(refund_amounts)s::bigint[]) AS refund(job_id, amount)
     WHERE budget.job_id = refund.job_id
), counted AS (
    INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
    SELECT job_id, lane_id, run_no, measure, stage, outcome, code, amount
      FROM unnest(%(count_jobs)s::bigint[], %(count_lanes)s::bigint[], %(count_runs)s::int[], %(count_measures)s::text[],
                  %(count_stages)s::int[], %(count_outcomes)s::int[], %(count_codes)s::text[], %(count_amounts)s::bigint[])
           AS moved(job_id, lane_id, run_no, measure, stage, outcome, code, amount)
     UNION ALL
    SELECT job_id, lane_id, run_no, 'stage', {Stage.PENDING:d}, 0, '', count(*) FROM planted GROUP BY job_id, lane_id, run_no
)
SELECT hash, job_id FROM planted
"""

_COUNT_REMOVED: Final[LiteralString] = """
INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
SELECT job_id, lane_id, run_no, 'deleted', 0, 0, '', amount
  FROM unnest(%(jobs)s::bigint[], %(lanes)s::bigint[], %(runs)s::int[], %(amounts)s::bigint[])
       AS removed(job_id, lane_id, run_no, amount)
"""

Key = tuple[str, int]
# No run is as high: the row is locked whatever its run.
_ANY_RUN: Final = 2**31 - 1


class OutputWriter:
    """
    What the flush tells of outcomes that counted, inside its transaction: who writes outputs implements it.

    `hold` is called with what now stands in the outputs and what must not: it returns how many
    documents left an output, by job and lane.
    """

    def write(
        self, cursor: psycopg.Cursor[Any], *, results: Sequence[Result], now: dt.datetime
    ) -> dict[tuple[int, int], int]:
        raise NotImplementedError


@retried
def flush(
    connection: psycopg.Connection[Any],
    *,
    worker: uuid.UUID,
    results: Sequence[Result],
    outputs: OutputWriter | None = None,
    is_known: Callable[[JobFacts, str, int], bool] = lambda _job, _hash, _depth: False,
    now: dt.datetime,
) -> Flushed:
    """
    Write the outcomes of claimed documents, and what they name, in one transaction.

    `is_known` tells of a (job, hash, depth) that this worker has written already: it is not looked at.

    Raises:
        FenceRefused: the worker was marked failed: nothing was written.
    """
    with connection.transaction(), named_rows(connection, binary=True) as cursor:
        refunds = sorted({r.job.id for r in results if r.job.has_budget and not r.outcome.requested})
        if refunds:
            hold_node(connection, worker)
            cursor.execute(_HOLD_BUDGETS, {"jobs": refunds})
        references = _references(cursor, results, is_known)
        own = {(r.claimed.document.hash, r.job.id) for r in results}
        rows = _lock(cursor, {**_changing(references), **dict.fromkeys(own, _ANY_RUN)}, worker=worker)
        if not rows:
            # Nothing was found: either because the fence is shut, or because nothing is there any more.
            hold_node(connection, worker)
        counted = [r for r in results if _claim_holds(r, rows)]
        if len(counted) < len(results):
            # What a lost claim named is dropped with it.
            references = _references(cursor, counted, is_known)
        plan = _Plan(now=now)
        looping = _find_loops(cursor, counted)
        for result in counted:
            key = (result.claimed.document.hash, result.job.id)
            plan.end(result, rows[key], loops=key in looping)
        ended = {(r.claimed.document.hash, r.job.id): r for r in counted}
        for key, named in references.items():
            plan.reference(key, named, rows.get(key), ended=ended.get(key))
        planted = {(row.hash.hex, row.job_id) for row in cursor.execute(_WRITE, plan.parameters())}
        beaten = [named for named in plan.new if (named.hash, named.job_id) not in planted]
        if beaten:
            _meet_the_others(cursor, beaten=beaten, references=references, worker=worker, now=now)
        # Last, so that little can fail between an append to a file and the commit.
        removed = outputs.write(cursor, results=counted, now=now) if outputs else {}
        if removed:
            runs = {result.job.id: result.job.run_no for result in counted}
            cursor.execute(
                _COUNT_REMOVED,
                {
                    "jobs": [job for job, _ in removed],
                    "lanes": [lane for _, lane in removed],
                    "runs": [runs[job] for job, _ in removed],
                    "amounts": list(removed.values()),
                },
            )
    return Flushed(
        written=len(counted),
        refused=len(results) - len(counted),
        lanes=frozenset(plan.woken),
        waiting_lanes=tuple(plan.waiting.items()),
        named=[(named.job, key, named.depth) for (key, _), named in references.items()],
    )


@dataclass(frozen=True, slots=True)
class _Named:
    """A reference, as near as any of this flush's documents brings it; perhaps the target of a redirect."""

    job: JobFacts
    identifier: str
    lane_id: int | None
    depth: int
    redirects: int
    is_target: bool


def _claim_holds(result: Result, rows: dict[Key, Any]) -> bool:
    row = rows.get((result.claimed.document.hash, result.job.id))
    return row is not None and row.batch_id == result.claimed.batch_id


def _references(
    cursor: psycopg.Cursor[Any], results: Sequence[Result], is_known: Callable[[JobFacts, str, int], bool]
) -> dict[Key, _Named]:
    """Everything that the results name, given or stored, each with its smallest depth."""
    references: dict[Key, _Named] = {}

    def add(
        job: JobFacts, key: str, *, depth: int, redirects: int, identifier: str, lane: int | None, is_target: bool
    ) -> None:
        if (is_known(job, key, depth) and not is_target) or (job.max_depth is not None and depth > job.max_depth):
            return
        known = references.get((key, job.id))
        if known is not None:
            depth, redirects = min(depth, known.depth), min(redirects, known.redirects)
            identifier, lane = known.identifier or identifier, known.lane_id or lane
            is_target = is_target or known.is_target
        references[key, job.id] = _Named(job, identifier, lane, depth, redirects, is_target)

    unread: dict[Key, Result] = {}
    for result in results:
        outcome = result.outcome
        if outcome.ending in {Ending.RETRY, Ending.GIVEN_BACK}:
            continue
        if outcome.references is None:
            unread[result.claimed.document.hash, result.job.id] = result
            continue
        for named in outcome.references:
            lane = result.lanes.get((result.claimed.seed_id, named.bin))
            add(
                result.job,
                named.hash,
                depth=named.depth,
                redirects=named.redirects,
                identifier=named.identifier,
                lane=lane,
                is_target=outcome.code == "REDIRECT",
            )
    if unread:
        facts = {"hashes": [key for key, _ in unread], "jobs": [job for _, job in unread]}
        for row in cursor.execute(_STORED_LINKS, facts).fetchall():
            result = unread[row.hash.hex, row.job_id]
            document = result.claimed.document
            depth = document.depth + (not row.is_redirect)
            redirects = document.redirects + 1 if row.is_redirect else 0
            for target in row.targets:
                add(
                    result.job,
                    target.hex,
                    depth=depth,
                    redirects=redirects,
                    identifier="",
                    lane=None,
                    is_target=row.is_redirect,
                )
    return references


def _changing(references: dict[Key, _Named]) -> dict[Key, int]:
    """Each reference with the run that its row must be older than for anything of it to change."""
    return {
        key: _ANY_RUN if named.job.tracks_depth or named.is_target else named.job.run_no
        for key, named in references.items()
    }


def _lock(cursor: psycopg.Cursor[Any], keys: Mapping[Key, int], *, worker: uuid.UUID) -> dict[Key, Any]:
    """Lock the rows of `keys` that are older than the run named with each; returns those and what else is there."""
    ordered = sorted(keys)
    facts = {
        "worker": worker,
        "hashes": [key for key, _ in ordered],
        "jobs": [job for _, job in ordered],
        "runs": [keys[key] for key in ordered],
    }
    return {(row.hash.hex, row.job_id): row for row in cursor.execute(_LOCK, facts)}


def _find_loops(cursor: psycopg.Cursor[Any], results: Sequence[Result]) -> set[Key]:
    """
    The documents whose redirect leads back into its own chain.

    Every document of a chain shares a locked row with its neighbours, so of a loop the last one to be
    flushed sees the others.
    """
    targets: dict[Key, Key] = {}
    for result in results:
        outcome = result.outcome
        if outcome.code == "REDIRECT" and outcome.references:
            key = (result.claimed.document.hash, result.job.id)
            targets[key] = (outcome.references[0].hash, result.job.id)
    if not targets:
        return set()
    runs = {result.job.id: result.job.run_no for result in results}
    facts = {
        "hashes": [key for key, _ in targets.values()],
        "jobs": [job for _, job in targets.values()],
        "runs": [runs[job] for _, job in targets.values()],
    }
    reached: dict[Key, set[str]] = {}
    for row in cursor.execute(_CHAINS, facts).fetchall():
        reached.setdefault((row.start.hex, row.job_id), set()).add(row.hash.hex)
    looping: set[Key] = set()
    # Redirects that are flushed together see each other too, in the order in which they came.
    seen: dict[Key, Key] = {}
    for key, target in targets.items():
        chain = set(reached.get(target, ())) | {target[0]}
        at: Key | None = target
        for _ in range(_LONGEST_CHAIN):
            at = seen.get(at) if at is not None else None
            if at is None:
                break
            chain.add(at[0])
            chain |= reached.get(at, set())
        if key[0] in chain:
            looping.add(key)
        seen[key] = target
    return looping


def _meet_the_others(
    cursor: psycopg.Cursor[Any],
    *,
    beaten: list["_New"],
    references: dict[Key, _Named],
    worker: uuid.UUID,
    now: dt.datetime,
) -> None:
    """Another flush inserted these first: a smaller depth of ours must still count."""
    theirs = {key: references[key] for key in ((named.hash, named.job_id) for named in beaten)}
    rows = _lock(cursor, _changing(theirs), worker=worker)
    plan = _Plan(now=now)
    for key, row in rows.items():
        plan.reference(key, references[key], row, ended=None)
    if plan.again:
        cursor.execute(_WRITE, plan.parameters())


@dataclass(frozen=True, slots=True)
class _New:
    hash: str
    job_id: int
    lane_id: int
    identifier: str
    run_no: int
    depth: int
    redirects: int


@dataclass(frozen=True, slots=True)
class _Again:
    hash: str
    job_id: int
    stage: int
    run_no: int
    depth: int
    redirects: int
    rescan: bool
    revived: bool
    unconditional: bool


@dataclass(frozen=True, slots=True)
class _Own:
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


_FIELDS: Final[dict[str, tuple[type[Any], tuple[str, ...]]]] = {
    "new": (_New, ("hashes", "jobs", "lanes", "identifiers", "runs", "depths", "redirects")),
    "ref": (
        _Again,
        ("hashes", "jobs", "stages", "runs", "depths", "redirects", "rescans", "revived", "unconditional"),
    ),
    "own": (
        _Own,
        (
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
        ),
    ),
}


class _Plan:
    """The writes of one flush, gathered row by row and handed to the database by column."""

    def __init__(self, *, now: dt.datetime) -> None:
        self.now = now
        self.new: list[_New] = []
        self.again: list[_Again] = []
        self.own: list[_Own] = []
        self.links: list[tuple[str, int, str, bool]] = []
        self.refunds: dict[int, int] = {}
        self.counts: dict[tuple[int, int, int, str, int, int, str], int] = {}
        self.woken: set[int] = set()
        self.waiting: dict[int, dt.datetime] = {}

    def count(
        self, job: int, lane: int, run: int, measure: str, stage: int, outcome: int, code: str, amount: int
    ) -> None:
        key = (job, lane, run, measure, stage, outcome, code)
        self.counts[key] = self.counts.get(key, 0) + amount

    def move(self, row: Any, *, job: JobFacts, stage: int, outcome: int = 0, code: str = "") -> None:
        """Count a document out of where it stands and into where it comes to stand."""
        done = row.stage == Stage.DONE
        old = (row.outcome, row.result_code) if done else (0, "")
        self.count(job.id, row.lane_id, row.run_no, "stage", row.stage, old[0], old[1], -1)
        self.count(job.id, row.lane_id, job.run_no, "stage", stage, outcome, code, 1)

    def end(self, result: Result, row: Any, *, loops: bool) -> None:
        """One of the flush's own documents."""
        outcome, job, key = result.outcome, result.job, result.claimed.document.hash
        if outcome.bytes_read:
            self.count(job.id, row.lane_id, job.run_no, "bytes", 0, 0, "", outcome.bytes_read)
        code = "REDIRECT_LOOP" if loops else outcome.code
        held = {
            Ending.INDEXED: True,
            Ending.UNCHANGED: True,
        }.get(outcome.ending, row.indexed_before and not outcome.removes)
        given_back = job.has_budget and not outcome.requested
        if outcome.ending == Ending.RETRY:
            check_time = self.now + dt.timedelta(seconds=outcome.retry_after)
            self._own(
                result,
                row,
                stage=Stage.PENDING,
                ending=row.outcome,
                code=row.result_code,
                held=held,
                check_time=check_time,
            )
            self.move(row, job=job, stage=Stage.PENDING)
            if check_time < self.waiting.get(row.lane_id, dt.datetime.max.replace(tzinfo=dt.UTC)):
                self.waiting[row.lane_id] = check_time
            return
        ending, code = _remembered(row, job=job, ending=int(outcome.ending), code=code)
        stage = Stage.PENDING if row.rescan else Stage.DONE
        self._own(result, row, stage=stage, ending=ending, code=code, held=held, given_back=given_back)
        if stage == Stage.DONE:
            self.move(row, job=job, stage=stage, outcome=ending, code=code)
        else:
            self.move(row, job=job, stage=stage)
            self.woken.add(row.lane_id)
        if given_back:
            self.refunds[job.id] = self.refunds.get(job.id, 0) + 1
        if outcome.references is not None:
            targets = "{" + ",".join([named.hash for named in outcome.references]) + "}"
            self.links.append((key, job.id, targets, outcome.code == "REDIRECT"))

    def _own(
        self,
        result: Result,
        row: Any,
        *,
        stage: int,
        ending: int,
        code: str,
        held: bool,
        check_time: dt.datetime | None = None,
        given_back: bool = False,
    ) -> None:
        outcome = result.outcome
        self.own.append(
            _Own(
                hash=result.claimed.document.hash,
                job_id=result.job.id,
                stage=int(stage),
                run_no=result.job.run_no,
                outcome=ending,
                code=code,
                version=outcome.version,
                # What is to be read again because a shorter path turned up must be read whole.
                validators="" if row.rescan else outcome.validators,
                indexed_before=held,
                depth=row.depth,
                check_time=check_time,
                retried=outcome.ending == Ending.RETRY,
                requested=outcome.requested,
                given_back=given_back,
            )
        )

    def reference(self, key: Key, named: _Named, row: Any, *, ended: Result | None) -> None:
        """A document that the flush's documents name."""
        job = named.job
        if row is None:
            # A stored link whose document was dropped names nothing any more: it has no identifier.
            if named.lane_id is not None and named.identifier:
                self.new.append(
                    _New(key[0], job.id, named.lane_id, named.identifier, job.run_no, named.depth, named.redirects)
                )
                self.woken.add(named.lane_id)
            return
        if row.stage is None:
            # It is part of this run already, and nothing of it can change.
            return
        if ended is not None:
            # It names itself, or ended in this same flush: only a shorter path matters.
            self._come_nearer_after_ending(named, row, ended)
            return
        nearer = job.tracks_depth and named.depth < row.depth
        if row.run_no < job.run_no and row.stage in {Stage.PENDING, Stage.DONE}:
            self._again(named, row, stage=Stage.PENDING, depth=named.depth, redirects=named.redirects, revived=True)
            self.move(row, job=job, stage=Stage.PENDING)
            self.woken.add(row.lane_id)
        elif nearer and row.stage == Stage.PENDING:
            self._again(named, row, stage=row.stage, depth=named.depth)
        elif nearer and row.stage == Stage.ACTIVE:
            self._again(named, row, stage=row.stage, depth=named.depth, rescan=True)
        elif nearer and row.stage == Stage.DONE:
            self._again(named, row, stage=Stage.PENDING, depth=named.depth, revived=True, unconditional=True)
            self.move(row, job=job, stage=Stage.PENDING)
            self.woken.add(row.lane_id)

    def _come_nearer_after_ending(self, named: _Named, row: Any, ended: Result) -> None:
        if not named.job.tracks_depth or named.depth >= row.depth or row.rescan:
            return
        index = next(i for i, own in enumerate(self.own) if (own.hash, own.job_id) == (row.hash.hex, row.job_id))
        own = self.own[index]
        if own.stage != Stage.DONE:
            return
        self.own[index] = replace(own, stage=int(Stage.PENDING), depth=named.depth, validators="")
        job = ended.job
        self.count(job.id, row.lane_id, job.run_no, "stage", Stage.DONE, own.outcome, own.code, -1)
        self.count(job.id, row.lane_id, job.run_no, "stage", Stage.PENDING, 0, "", 1)
        self.woken.add(row.lane_id)

    def _again(
        self,
        named: _Named,
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
            _Again(
                hash=row.hash.hex,
                job_id=row.job_id,
                stage=int(stage),
                run_no=named.job.run_no,
                depth=depth,
                redirects=min(row.redirects, named.redirects) if redirects is None else redirects,
                rescan=rescan,
                revived=revived,
                unconditional=unconditional,
            )
        )

    def parameters(self) -> dict[str, Any]:
        """The gathered rows by column, as the statement wants them."""
        facts: dict[str, Any] = {"now": self.now}
        for prefix, rows in (("new", self.new), ("ref", self.again), ("own", self.own)):
            kind, columns = _FIELDS[prefix]
            for name, column in zip((f.name for f in fields(kind)), columns, strict=True):
                facts[f"{prefix}_{column}"] = [getattr(row, name) for row in rows]
        facts |= _columns(self.links, ("link_hashes", "link_jobs", "link_targets", "link_redirects"))
        facts |= {"refund_jobs": list(self.refunds), "refund_amounts": list(self.refunds.values())}
        moved = [(*key, amount) for key, amount in self.counts.items() if amount]
        names = ("jobs", "lanes", "runs", "measures", "stages", "outcomes", "codes", "amounts")
        return facts | _columns(moved, tuple(f"count_{name}" for name in names))


def _columns(rows: Sequence[tuple[Any, ...]], names: tuple[str, ...]) -> dict[str, list[Any]]:
    if not rows:
        return {name: [] for name in names}
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _remembered(row: Any, *, job: JobFacts, ending: int, code: str) -> tuple[int, str]:
    """What was indexed in this run stays so when a second look finds it unchanged."""
    if ending == Ending.UNCHANGED and row.run_no == job.run_no and row.outcome == Ending.INDEXED:
        return int(Ending.INDEXED), row.result_code
    return ending, code
