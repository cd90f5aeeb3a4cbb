"""
Flushing: one transaction makes many outcomes durable, with all their references.

Flushes may run at the same time, because all lock in the same order. First a flush locks the node fence, and the
budgets of outcomes that return their place. Then it locks ALL existing rows that will be written, own and referenced,
in one SELECT ORDER BY hash. All decisions follow after these locks. An outcome whose claim was lost is discarded, with
its references and its output. Missing references are inserted in the order of their hashes.
"""

import datetime as dt
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import Ending, Reference
from jobs.lifecycle.activity import ActivityName
from jobs.lifecycle.document import Stage
from jobs.queue.discover import COUNT_INSERTED, INSERT_OR_REVIVE, New
from jobs.queue.flushing import carrying, freshness, gates, hop_limits
from jobs.queue.flushing.foreign_references import ForeignReferences
from jobs.queue.flushing.history import WRITE_HISTORY, Departure, History, departures_by_lane
from jobs.queue.flushing.hop_limits import Reach
from jobs.queue.flushing.outcomes import FlushPlan, JobFacts, Key, Named, Result, give_up, left_to_clean_up
from jobs.queue.flushing.redirects import LONGEST_CHAIN, read_chains
from jobs.queue.flushing.retry_limits import keep_retry_limits
from jobs.queue.flushing.stored_links import read_stored_links
from jobs.queue.flushing.versions import keep_versions
from jobs.queue.sql.arrays import Hashes
from jobs.queue.sql.order import AGAIN
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.transaction import implicit_transaction
from nodes.membership.fences import MAY_WRITE, hold_node
from nodes.membership.incarnation import remembered


@dataclass(frozen=True, slots=True)
class Flushed:
    """
    The result of one flush.

    `written` outcomes were counted; `refused` ones had lost their claim. `lanes` got due documents and may be
    dormant: the caller wakes them after the commit. `named` are (job, hash, depth) of documents that now certainly
    have a row. `failing_jobs` must stop, each with its reason: one of their documents failed for too long. `counted`
    are the written results, and `departed` is the number of documents that left an output.
    """

    written: int = 0
    refused: int = 0
    lanes: frozenset[int] = frozenset()
    waiting_lanes: tuple[tuple[int, dt.datetime], ...] = ()
    named: list[tuple[JobFacts, str, int]] = field(default_factory=list)
    failing_jobs: dict[int, str] = field(default_factory=dict)
    counted: Sequence[Result] = ()
    departed: int = 0


# Locks: Budget by job.
_HOLD_BUDGETS: Final[LiteralString] = (
    "SELECT 1 FROM jobs_budget WHERE job_id = ANY(%(jobs)s) ORDER BY job_id FOR NO KEY UPDATE"
)

# The flush's own rows, and references whose rows may have to change: rows of an older run, or all rows if depth matters
# or a chain of redirects is followed. If many workers crawl one site, nearly all references need no change. For these
# references it is enough to know that their documents exist, so their hashes come as one value for each job, with
# sixteen bytes for each hash. Locks: Node KEY SHARE (the node fence), then QueueItem by (hash, job).
_LOCK: Final[LiteralString] = f"""
WITH node AS MATERIALIZED (
    SELECT id FROM nodes_node WHERE id = %(worker)s AND {MAY_WRITE} FOR KEY SHARE
), there AS MATERIALIZED (
    SELECT item.hash, item.job_id, item.run_no < wanted.older_than AS may_change
      FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[], %(runs)s::int[]) AS wanted(hash, job_id, older_than)
      JOIN jobs_queueitem AS item ON item.hash = wanted.hash AND item.job_id = wanted.job_id
     WHERE EXISTS (SELECT FROM node)
), locked AS MATERIALIZED (
    SELECT item.hash, item.job_id, item.lane_id, item.batch_id, item.stage, item.run_no, item.depth, item.redirects,
           item.rescan, item.indexed_before, item.outcome, item.result_code, item.admitted_run, item.changed_at,
           item.endings
      FROM there JOIN jobs_queueitem AS item ON item.hash = there.hash AND item.job_id = there.job_id
     WHERE there.may_change
     ORDER BY item.hash, item.job_id
       FOR NO KEY UPDATE OF item
)
SELECT *, NULL::bytea AS unchanging FROM locked
 UNION ALL
SELECT NULL, job_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       string_agg(uuid_send(hash), '')
  FROM there
 WHERE NOT may_change
 GROUP BY job_id
"""

_LANES: Final[LiteralString] = """
SELECT DISTINCT item.lane_id
  FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS wanted(hash, job_id)
  JOIN jobs_queueitem AS item ON item.hash = wanted.hash AND item.job_id = wanted.job_id
"""

# The redirects that lead on from each target, step by step. Read after the lock. Redirects of an older run do not count
# until the document is requested again, because the document may redirect to another address now.
_CHAINS: Final[LiteralString] = f"""
WITH RECURSIVE chain AS (
    SELECT start.hash, start.job_id, start.run_no, NULL::uuid AS source, 0 AS length
      FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[], %(runs)s::int[]) AS start(hash, job_id, run_no)
    UNION ALL
    SELECT link.targets[1], chain.job_id, chain.run_no, chain.hash, chain.length + 1
      FROM chain
      JOIN jobs_outlinks AS link ON link.hash = chain.hash AND link.job_id = chain.job_id AND link.is_redirect
      JOIN jobs_queueitem AS item ON item.hash = chain.hash AND item.job_id = chain.job_id
           AND item.run_no = chain.run_no AND item.stage = {Stage.DONE:d}
     WHERE chain.length < {LONGEST_CHAIN}
)
SELECT DISTINCT source, job_id, hash AS target FROM chain WHERE source IS NOT NULL
"""

# All changes of a flush, in rows that this transaction holds, and the missing references.
# Locks: the inserted QueueItems, by hash. Rows that another flush inserted meanwhile stay as they are; the caller
# compares the returned keys.
WRITE: Final[LiteralString] = f"""
WITH {INSERT_OR_REVIVE}, ended AS (
    UPDATE jobs_queueitem AS item
       SET stage = own.stage, run_no = own.run_no, batch_id = NULL, rescan = false, outcome = own.outcome,
           result_code = own.code, version = own.version, validators = own.validators,
           indexed_before = own.indexed_before, depth = own.depth,
           seq = CASE WHEN own.stage = {Stage.PENDING:d} AND own.check_time IS NULL THEN {AGAIN} END,
           check_time = own.check_time,
           failures = CASE WHEN own.retried THEN item.failures + 1 ELSE 0 END,
           failing_since = CASE WHEN own.retried THEN coalesce(item.failing_since, %(now)s) END,
           losses = 0, fetched_at = CASE WHEN own.requested THEN %(now)s ELSE item.fetched_at END,
           admitted_run = CASE WHEN own.given_back THEN 0 ELSE item.admitted_run END,
           action = own.action, changed_at = own.changed_at, response_ms = coalesce(own.response_ms, item.response_ms),
           endings = own.endings
      FROM unnest(%(own_hashes)s::uuid[], %(own_jobs)s::bigint[], %(own_stages)s::int[], %(own_runs)s::int[],
                  %(own_outcomes)s::int[], %(own_codes)s::text[], %(own_versions)s::text[], %(own_validators)s::text[],
                  %(own_indexed)s::bool[], %(own_depths)s::int[], %(own_check_times)s::timestamptz[],
                  %(own_retried)s::bool[], %(own_requested)s::bool[], %(own_given_back)s::bool[],
                  %(own_actions)s::int[], %(own_changed_at)s::timestamptz[], %(own_response_ms)s::int[],
                  %(own_endings)s::int[])
           AS own(hash, job_id, stage, run_no, outcome, code, version, validators, indexed_before, depth, check_time,
                  retried, requested, given_back, action, changed_at, response_ms, endings)
     WHERE item.hash = own.hash AND item.job_id = own.job_id
), linked AS (
    INSERT INTO jobs_outlinks AS links (hash, job_id, targets, is_redirect)
    SELECT hash, job_id, (%(link_targets)s::uuid[])[first:last], is_redirect
      FROM unnest(%(link_hashes)s::uuid[], %(link_jobs)s::bigint[], %(link_firsts)s::int[], %(link_lasts)s::int[],
                  %(link_redirects)s::bool[])
           AS link(hash, job_id, first, last, is_redirect)
    ON CONFLICT (hash, job_id) DO UPDATE
       SET targets = excluded.targets, is_redirect = excluded.is_redirect,
           (lost, is_replaced) = (
               SELECT CASE WHEN is_same THEN links.lost
                           ELSE nullif(ARRAY(SELECT unnest(base) EXCEPT SELECT unnest(excluded.targets)), '{{}}') END,
                      CASE WHEN is_same THEN links.is_replaced
                           ELSE cardinality(base) > 0 AND (excluded.is_redirect OR NOT base && excluded.targets) END
                 -- A replaced page may change at each run, as a login page does. Until the removal of the documents
                 -- that it named before, its links are compared with these.
                 FROM (SELECT links.targets = excluded.targets AS is_same,
                              CASE WHEN links.is_replaced AND links.targets <> excluded.targets
                                        AND EXISTS (SELECT FROM jobs_queueitem AS item
                                                     WHERE item.hash = ANY(links.lost) AND item.job_id = links.job_id)
                                   THEN links.lost ELSE links.targets END AS base) AS was)
), refunded AS (
    UPDATE jobs_budget AS budget SET admitted = budget.admitted - refund.amount
      FROM unnest(%(refund_jobs)s::bigint[], %(refund_amounts)s::bigint[]) AS refund(job_id, amount)
     WHERE budget.job_id = refund.job_id
), counted AS (
    INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount, sample, example)
    SELECT job_id, lane_id, run_no, measure, stage, outcome, code, amount, sample, example
      FROM unnest(%(count_jobs)s::bigint[], %(count_lanes)s::bigint[], %(count_runs)s::int[], %(count_measures)s::text[],
                  %(count_stages)s::int[], %(count_outcomes)s::int[], %(count_codes)s::text[], %(count_amounts)s::bigint[],
                  %(count_samples)s::uuid[], %(count_examples)s::text[])
           AS moved(job_id, lane_id, run_no, measure, stage, outcome, code, amount, sample, example)
     UNION ALL
    SELECT found.*, NULL, '' FROM ({COUNT_INSERTED}) AS found
), past AS ({WRITE_HISTORY})
SELECT hash, job_id FROM inserted
"""

# The lane id of counts that belong to the whole run.
_NO_LANE: Final = 0
# Number of hexadecimal digits of a hash.
_DIGITS: Final = 32
# A number above every run: the row is locked whatever its run is.
_ANY_RUN: Final = 2**31 - 1


class OutputWriter:
    """
    Interface for the outputs: the flush passes them its written outcomes, inside its transaction.

    `write` gets the results, indexes and removes their documents, and returns the documents that left an output.
    Afterwards `unwritten` has documents, by output and hash, for which a pipeline made the content that the output
    already has.
    """

    unwritten: Set[tuple[int, str]] = frozenset()

    def write(self, cursor: psycopg.Cursor[Any], *, results: Sequence[Result], now: dt.datetime) -> Sequence[Departure]:
        raise NotImplementedError


class ArchiveRecords:
    """
    Interface for archives: the flush passes them its written outcomes, inside its transaction.

    `write` inserts the places of exchanges that were appended to files before.
    """

    def write(self, cursor: psycopg.Cursor[Any], *, results: Sequence[Result]) -> None:
        raise NotImplementedError


# A function that gets a job, hashes of addresses and their depth, and returns the hashes that may have to be written.
Unknown = Callable[[JobFacts, Sequence[str], int], Sequence[str]]


def _all_of(_job: JobFacts, hashes: Sequence[str], _depth: int) -> Sequence[str]:
    return hashes


@retried
def flush(
    connection: psycopg.Connection[Any],
    *,
    worker: uuid.UUID,
    results: Sequence[Result],
    outputs: OutputWriter | None = None,
    archives: ArchiveRecords | None = None,
    unknown: Unknown = _all_of,
    keeps_history: bool = True,
    now: dt.datetime,
) -> Flushed:
    """
    Write the outcomes of claimed documents, and their references, in one transaction.

    `unknown` returns the references that this worker has not written before. The flush skips all other references.

    Raises:
        FenceRefused: the worker was marked failed, or the database was restored to an older state: nothing was written.
    """
    results, failing_jobs = give_up(results)
    beginners = {r.job.id for r in results if r.outcome.carries and not r.claimed.carries}
    if beginners:
        carrying.begin(connection, beginners)
    with implicit_transaction(connection, binary=True) as cursor:
        closed = _hold_gates(connection, cursor, results, worker=worker)
        reach = _measure_hops(connection, cursor, results, worker=worker)
        results = [reach.judged(result) for result in results] if reach.touched else results
        passing = carrying.of_results(results, left=reach.left)
        children = passing.children(cursor)
        refunds = sorted({r.job.id for r in results if r.job.has_budget and not r.outcome.requested})
        if refunds:
            hold_node(connection, worker)
            cursor.execute(_HOLD_BUDGETS, {"jobs": refunds})
        references, foreign = _references(cursor, results, unknown)
        own = {(r.claimed.document.hash, r.job.id) for r in results}
        whatever_their_run = dict.fromkeys(own | children, _ANY_RUN)
        found = lock_documents(
            cursor, {**runs_below_which_rows_change(references), **whatever_their_run}, worker=worker
        )
        rows = found.rows
        if not (rows or found.unchanging):
            # No row was found. Either the node's fence refuses, or the rows no longer exist.
            hold_node(connection, worker)
        counted = [r for r in results if _claim_holds(r, rows)]
        if len(counted) < len(results):
            # The references of a lost claim are discarded with it.
            references, foreign = _references(cursor, counted, unknown)
            passing = carrying.of_results(counted, left=reach.left)
        counted = [left_to_clean_up(r, rows[r.claimed.document.hash, r.job.id]) for r in counted]
        changed = passing.write(cursor, children)
        looked = freshness.look(cursor, counted, rows, now=now)
        plan = FlushPlan(now=now, closed_gates=closed, planned=looked.waits)
        for (job_id, run_no), amount in Counter(
            (named.job.id, named.job.run_no) for named in references.values()
        ).items():
            plan.count(job_id, _NO_LANE, run_no, "offered", 0, 0, "", amount)
        for job_id, run_no, amount in _requests(counted):
            plan.count(job_id, _NO_LANE, run_no, "requests", 0, 0, "", amount)
        looping = _find_loops(cursor, counted)
        for result in counted:
            key = (result.claimed.document.hash, result.job.id)
            plan.end(result, rows[key], loops=key in looping, is_outside=reach.is_outside(key, result.job))
        ended = {(r.claimed.document.hash, r.job.id): r for r in counted}
        for key, named in references.items():
            if key in found.unchanging:
                continue
            plan.reference(key, named, rows.get(key), ended=ended.get(key), is_outside=reach.is_outside(key, named.job))
        # Outputs are written before the update resets `indexed_before`, because they need its old value for a removal
        # after a lost claim.
        departures = outputs.write(cursor, results=counted, now=now) if outputs else ()
        if archives is not None and any(result.outcome.stored for result in counted):
            archives.write(cursor, results=counted)
        jobs = {result.job.id: result.job for result in counted}
        for (job_id, lane_id), amount in departures_by_lane(departures).items():
            plan.count(job_id, lane_id, jobs[job_id].run_no, "deleted", 0, 0, "", amount)
        history = History(now=now, is_kept=keeps_history, worker=worker)
        history.record_outcomes(counted, unwritten=outputs.unwritten if outputs else frozenset())
        history.record_departures(departures, jobs=jobs)
        inserted = {
            (row.hash.hex, row.job_id) for row in cursor.execute(WRITE, plan.parameters() | history.parameters())
        }
        foreign.write(cursor)
        keep_retry_limits(cursor, counted)
        keep_versions(cursor, counted, now=now)
        looked.write(cursor, now=now)
        if plan.gated:
            gates.let_wait(cursor, plan.gated)
        beaten = [named for named in plan.new if (named.hash, named.job_id) not in inserted]
        if beaten:
            merge_concurrent_inserts(cursor, beaten=beaten, references=references, worker=worker, now=now)
        lanes = plan.woken.union(*_move_touched(cursor, reach, apart_from=references.keys() | ended.keys()))
        lanes |= set(passing.requeue(cursor, changed))
        if len(counted) < len(results):
            # Wake the lanes here, too: an earlier attempt of this flush may have committed, and may have lost its
            # answer before it woke them.
            lanes |= _lanes_of(cursor, rows.keys() | found.unchanging)
    return Flushed(
        written=len(counted),
        refused=len(results) - len(counted),
        lanes=frozenset(lanes),
        waiting_lanes=tuple(plan.waiting.items()),
        named=[
            (named.job, key, named.depth)
            for (key, job_id), named in references.items()
            # A stored link has only a hash, so it creates no row for a document that was dropped. The document does not
            # count as known, because another page may name its identifier.
            if named.identifier or (key, job_id) in rows or (key, job_id) in found.unchanging
        ]
        + foreign.named(),
        failing_jobs=failing_jobs,
        counted=counted,
        departed=len(departures),
    )


def _hold_gates(
    connection: psycopg.Connection[Any], cursor: psycopg.Cursor[Any], results: Sequence[Result], *, worker: uuid.UUID
) -> frozenset[str]:
    """Return the gates of waiting results that are closed; they stay closed until the flush is done."""
    wanted = {result.outcome.gate for result in results if result.outcome.ending == Ending.WAITING}
    if not wanted:
        return frozenset()
    hold_node(connection, worker)
    return gates.keep_closed(cursor, wanted)


def _requests(results: Sequence[Result]) -> Iterator[tuple[int, int, int]]:
    """Yield the number of requests of these results for each job and run. Jobs without requests are left out."""
    made: Counter[tuple[int, int]] = Counter()
    for result in results:
        made[result.job.id, result.job.run_no] += sum(
            record.activity == ActivityName.FETCH for record in result.outcome.records
        )
    yield from ((job_id, run_no, amount) for (job_id, run_no), amount in made.items() if amount)


def _measure_hops(
    connection: psycopg.Connection[Any], cursor: psycopg.Cursor[Any], results: Sequence[Result], *, worker: uuid.UUID
) -> Reach:
    """
    Merge the results of jobs with hop limits into their hop counts, if their claims hold.

    The rows of the results are locked before all other rows. So a process that waits for these rows holds no row that
    this flush needs.
    """
    limited = [result for result in results if result.job.hops is not None]
    if not limited:
        return Reach()
    hold_node(connection, worker)
    hop_limits.hold(cursor, {result.job for result in limited})
    own = {(result.claimed.document.hash, result.job.id): _ANY_RUN for result in limited}
    rows = lock_documents(cursor, own, worker=worker).rows
    return hop_limits.measure(cursor, [result for result in limited if _claim_holds(result, rows)])


def _move_touched(cursor: psycopg.Cursor[Any], reach: Reach, *, apart_from: Set[Key]) -> Iterator[list[int]]:
    """
    Move documents whose hop counts changed and that the flush did not name; yield the lanes with new due documents.
    """
    for job, touched in reach.touched.items():
        keys = {(document, job.id) for document in touched} - apart_from
        yield hop_limits.apply(
            cursor,
            job_id=job.id,
            run_no=job.run_no,
            is_full_scan=job.is_full_scan,
            within={document for document, _ in keys & reach.within},
            touched={document for document, _ in keys},
        )


def _claim_holds(result: Result, rows: dict[Key, Any]) -> bool:
    row = rows.get((result.claimed.document.hash, result.job.id))
    return row is not None and row.batch_id == result.claimed.batch_id


def _references(
    cursor: psycopg.Cursor[Any], results: Sequence[Result], unknown: Unknown
) -> tuple[dict[Key, Named], ForeignReferences]:
    """
    Return all references of the results, given or stored, each with its smallest depth. Also return the references to
    other partitions.
    """
    references: dict[Key, Named] = {}
    foreign = ForeignReferences()

    def add(
        job: JobFacts,
        key: str,
        *,
        source: str,
        depth: int,
        redirects: int,
        identifier: str,
        lane: int | None,
        is_target: bool,
    ) -> None:
        if job.max_depth is not None and depth > job.max_depth:
            return
        known = references.get((key, job.id))
        if known is not None:
            source = known.source if known.depth <= depth else source
            depth, redirects = min(depth, known.depth), min(redirects, known.redirects)
            identifier, lane = known.identifier or identifier, known.lane_id or lane
            is_target = is_target or known.is_target
        references[key, job.id] = Named(job, identifier, lane, depth, redirects, is_target, source)

    unread: dict[Key, Result] = {}
    for result in results:
        outcome = result.outcome
        if not outcome.ending.is_final:
            continue
        if outcome.references is None:
            unread[result.claimed.document.hash, result.job.id] = result
            continue
        document, is_target = outcome.document, outcome.code == "REDIRECT"
        given: Sequence[Reference] = outcome.references
        if not is_target:
            # A short cut for nearly all references. A call of `add` for each would take most of the time of a flush.
            links = [named.hash for named in given if not named.is_redirect]
            left = set(unknown(result.job, links, document.depth + 1))
            if not left and len(links) == len(given):
                continue
            given = [named for named in given if named.is_redirect or named.hash in left]
        if result.job.partitioned is not None:
            given = foreign.take(result, given)
        for named in given:
            depth = document.depth + (not named.is_redirect)
            lane = result.lanes.get((result.claimed.seed_id, named.bin))
            add(
                result.job,
                named.hash,
                source=document.hash,
                depth=depth,
                redirects=document.redirects + 1 if named.is_redirect else 0,
                identifier=named.identifier,
                lane=lane,
                is_target=is_target,
            )
    for stored in read_stored_links(cursor, unread) if unread else ():
        job, document = stored.result.job, stored.result.claimed.document
        depth = document.depth + (not stored.is_redirect)
        redirects = document.redirects + 1 if stored.is_redirect else 0
        targets = stored.targets if stored.is_redirect else unknown(job, stored.targets, depth)
        foreign.take_stored(stored, targets)
        for target in targets:
            add(
                job,
                target,
                source=document.hash,
                depth=depth,
                redirects=redirects,
                identifier="",
                lane=None,
                is_target=stored.is_redirect,
            )
    return references, foreign


def runs_below_which_rows_change(references: dict[Key, Named]) -> dict[Key, int]:
    """
    Return a run number for each reference. If the row of the reference is of this run or a later one, it does not
    change.
    """
    return {
        key: _ANY_RUN if named.job.tracks_depth or named.is_target or named.job.hops else named.job.run_no
        for key, named in references.items()
    }


@dataclass(frozen=True, slots=True)
class Found:
    """The existing documents: locked rows, and documents that cannot change."""

    rows: dict[Key, Any]
    unchanging: set[Key]


def lock_documents(cursor: psycopg.Cursor[Any], keys: Mapping[Key, int], *, worker: uuid.UUID) -> Found:
    """
    Lock each row of `keys` whose run is below the run that is given for its key. Return these rows, and the keys of the
    other existing rows.
    """
    ordered = sorted(keys)
    facts = {
        "worker": worker,
        "hashes": Hashes(key for key, _ in ordered),
        "jobs": [job for _, job in ordered],
        "runs": [keys[key] for key in ordered],
        **remembered(worker),
    }
    found = Found({}, set())
    for row in cursor.execute(_LOCK, facts):
        if row.unchanging is None:
            found.rows[row.hash.hex, row.job_id] = row
        else:
            packed = row.unchanging.hex()
            found.unchanging.update((packed[at : at + _DIGITS], row.job_id) for at in range(0, len(packed), _DIGITS))
    return found


def _lanes_of(cursor: psycopg.Cursor[Any], keys: Set[Key]) -> set[int]:
    facts = {"hashes": Hashes(key for key, _ in keys), "jobs": [job for _, job in keys]}
    return {row.lane_id for row in cursor.execute(_LANES, facts)}


def _find_loops(cursor: psycopg.Cursor[Any], results: Sequence[Result]) -> set[Key]:
    """
    Return the documents whose redirect leads back into its own chain.

    Each document of a chain shares a locked row with its neighbours. So the flush of the last document of a loop sees
    the whole loop.
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
    leads_to: dict[Key, Key] = {
        (row.source.hex, row.job_id): (row.target.hex, row.job_id) for row in cursor.execute(_CHAINS, facts)
    }
    if any(result.job.partitioned is not None for result in results):
        leads_to |= read_chains(cursor, facts)
    looping: set[Key] = set()
    # Redirects of the same flush count for each other, too, in the order in which they are written.
    for key, target in targets.items():
        leads_to[key] = target
        at: Key | None = target
        for _ in range(LONGEST_CHAIN):
            if at is None or at == key:
                break
            at = leads_to.get(at)
        if at == key:
            looping.add(key)
    return looping


def merge_concurrent_inserts(
    cursor: psycopg.Cursor[Any],
    *,
    beaten: list["New"],
    references: dict[Key, Named],
    worker: uuid.UUID,
    now: dt.datetime,
) -> None:
    """Apply references to documents that another flush inserted first. A smaller depth in this flush still counts."""
    theirs = {key: references[key] for key in ((named.hash, named.job_id) for named in beaten)}
    rows = lock_documents(cursor, runs_below_which_rows_change(theirs), worker=worker).rows
    plan = FlushPlan(now=now)
    for key, row in rows.items():
        plan.reference(key, references[key], row, ended=None)
    if plan.again:
        nothing_more = History(now=now, is_kept=False)
        cursor.execute(WRITE, plan.parameters() | nothing_more.parameters())
