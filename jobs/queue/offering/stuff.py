"""
Stuffing: the owner of a group claims due documents and offers them in batches.

It is one transaction of a few statements. The first statement locks rows (node, group, jobs, budgets, bins, lanes).
Later statements read the documents that may be handed out under these locks. It skips a bin, a lane or a document that
another transaction holds, and the next pass finds these rows again.
"""

import datetime as dt
import json
import math
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.document import Action, Stage
from jobs.lifecycle.job import Phase
from jobs.models import Batch, Bin, Outcome
from jobs.queue.offering.cursors import LaneCursors
from jobs.queue.offering.hold import OFFER, GroupHeld, Held, Stuffed, hold
from jobs.queue.pace.limits import BOUND, FACTS, AppliedPolicies
from jobs.queue.pace.next_start import LAST_USE_COLUMNS
from jobs.queue.sql.low_water import LOWEST_TURN
from jobs.queue.sql.order import AGAIN, FIRST_FRESH, FRESH, RECHECKED
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.runnable import RUNNABLE
from jobs.queue.sql.stages import CLAIMED, PENDING_OR_DONE
from jobs.queue.sql.states import lock_states, read_states, write_states
from jobs.queue.sql.transaction import implicit_transaction
from jobs.queue.wake import wake_lanes
from jobs.throttling.bins import (
    LOST_PLACE,
    MOST_A_TURN,
    BinSeen,
    LaneSeen,
    NoPlace,
    OpenTurn,
    ParentSeen,
    TurnPlan,
    plan_turns,
)
from jobs.throttling.next_start import next_start_at
from jobs.throttling.preferred_workers import prefer_workers

# Largest number of documents in a batch that has turns of many bins.
_DOCUMENTS_A_BATCH: Final = 64
# Number of losses of a document with its worker, from which on the document is handed out alone.
_SUSPECT_LOSSES: Final = 2
# Largest numbers of due documents to which one pass gives a new `seq`: in one lane, unless its turns need more, and in
# all lanes.
_DUE_AGAIN_AT_ONCE: Final = 200
_DUE_AGAIN_A_PASS: Final = 2000

# The columns of a bin's state that planning reads.
_STATE: Final[LiteralString] = (
    f"version, {LAST_USE_COLUMNS}, closed_at, open_requests, answer_seconds, starts, bytes_read"
)
# The facts of the locked bins: their limits, their open turns (for a parent: those below it), and the first ready
# lane of another group. The worker of a turn is null if it belongs to another scope, because it takes no batch of this
# scope.
_BINS: Final[LiteralString] = f"""
SELECT {FACTS}, {LAST_USE_COLUMNS}, state.version, bin.back_off_until, bin.back_off_level, state.closed_at, bin.is_known, state.open_requests,
       state.answer_seconds, state.starts, state.bytes_read, bin.parent_id, coalesce(open.turns, '[]') AS turns, below.documents, below.workers,
       rival.priority AS rival_priority, rival.served_at AS rival_served_at
  FROM jobs_bin AS bin
 CROSS JOIN LATERAL {read_states(_STATE, of="bin", number="bin.id")} AS state {BOUND}
  LEFT JOIN LATERAL (
       SELECT json_agg(json_build_array(turn.id,
                       CASE WHEN batch.state = 'sent' AND batch.node_scope = %(scope)s THEN batch.worker_id END,
                       EXISTS (SELECT FROM jobs_turn AS next WHERE next.follows_id = turn.id AND next.closed_at IS NULL)
              ) ORDER BY turn.id) AS turns
         FROM jobs_turn AS turn JOIN jobs_batch AS batch ON batch.id = turn.batch_id
        WHERE turn.bin_id = bin.id AND turn.closed_at IS NULL AND turn.id >= {LOWEST_TURN}) AS open ON true
  LEFT JOIN LATERAL (
       SELECT sum(turn.documents) AS documents,
              json_agg(DISTINCT CASE WHEN batch.state = 'sent' AND batch.node_scope = %(scope)s THEN batch.worker_id END)
                  AS workers
         FROM jobs_turn AS turn JOIN jobs_batch AS batch ON batch.id = turn.batch_id
        WHERE bin.namespace IN ('address', 'policy') AND turn.closed_at IS NULL AND turn.parents IS NOT NULL
          AND turn.parents ? bin.id::text) AS below ON true
  LEFT JOIN LATERAL (
       SELECT job.priority, ready.served_at
         FROM jobs_lane AS lane
         JOIN jobs_seed AS seed ON seed.id = lane.seed_id AND seed.group_id IS DISTINCT FROM %(group)s
         JOIN jobs_throttlegroup AS held ON held.id = seed.group_id AND held.state = 'owned'
         JOIN jobs_job AS job ON job.id = seed.job_id
        CROSS JOIN LATERAL {read_states("ready_at, served_at", of="lane", number="lane.id")} AS ready
        -- With a single owned group there are no rivals to search.
        WHERE (SELECT count(*) FROM jobs_throttlegroup WHERE state = 'owned') > 1
          AND lane.bin_id = bin.id AND ready.ready_at <= %(now)s
          AND job.phase = 'active' AND {RUNNABLE}
        ORDER BY job.priority, ready.served_at NULLS FIRST
        LIMIT 1) AS rival ON true
 WHERE bin.id = ANY(%(bins)s)
"""
# For each policy with limits over all its bins, the bin that represents them.
# Locks: the rows that it inserts; and Bin by id, skipping locked rows.
_MAKE_TOTALS: Final[LiteralString] = """
WITH made AS (
    INSERT INTO jobs_bin (namespace, name, "interval", is_known)
    SELECT 'policy', name, 0, true FROM unnest(%(names)s::text[]) AS policy(name)
     WHERE NOT EXISTS (SELECT FROM jobs_bin AS made WHERE made.namespace = 'policy' AND made.name = policy.name)
     ORDER BY name
    ON CONFLICT (namespace, name) DO NOTHING
    RETURNING id
)
INSERT INTO jobs_binstate (bin_id) SELECT id FROM made
"""
_HOLD_TOTALS: Final[LiteralString] = lock_states(
    of="bin",
    seen="SELECT id, 0 AS version FROM jobs_bin WHERE namespace = 'policy' AND name = ANY(%(names)s)",
    skipping=True,
)

# The first due documents of each lane, until there are enough: the lanes are read one after the other. The statement
# also gives a `seq` to other documents, for the next pass: documents whose check time has come and, in a run that
# rechecks known documents, documents of older runs in the `recheck` stages. A document that another job has claimed is
# skipped. The lock of the bin prevents that two stuffers claim it at the same time. Locks: QueueItem, skipping locked
# rows.
_DOCUMENTS: Final[LiteralString] = f"""
WITH wanted AS (
    SELECT wanted.*, string_to_array(rechecks, ',')::int[] AS stages
      FROM unnest(%(lanes)s::bigint[], %(jobs)s::bigint[], %(runs)s::int[], %(counts)s::int[], %(heads)s::bigint[],
                  %(below)s::bigint[], %(rechecks)s::text[])
           WITH ORDINALITY AS wanted(lane_id, job_id, run_no, count, head, below, rechecks, place)
), due AS (
    SELECT * FROM (
        SELECT due.*, {AGAIN} AS number, wanted.run_no AS this_run
          FROM wanted CROSS JOIN LATERAL (
               SELECT hash, job_id, lane_id, run_no, stage, outcome, result_code FROM jobs_queueitem
                WHERE lane_id = wanted.lane_id AND check_time <= %(now)s AND stage IN {PENDING_OR_DONE}
                  AND action = {Action.PROCESS:d} AND run_no = wanted.run_no
                ORDER BY check_time LIMIT greatest({_DUE_AGAIN_AT_ONCE}, wanted.count)
                  FOR NO KEY UPDATE SKIP LOCKED) AS due
         UNION ALL
        SELECT known.*, {FRESH}, wanted.run_no
          FROM wanted CROSS JOIN LATERAL (
               SELECT hash, job_id, lane_id, run_no, stage, outcome, result_code FROM jobs_queueitem
                WHERE lane_id = wanted.lane_id AND run_no < wanted.run_no AND stage = ANY(wanted.stages)
                ORDER BY run_no LIMIT greatest({_DUE_AGAIN_AT_ONCE}, wanted.count)
                  FOR NO KEY UPDATE SKIP LOCKED) AS known
         WHERE wanted.rechecks <> ''
    ) AS due LIMIT {_DUE_AGAIN_A_PASS}
), ripe AS (
    UPDATE jobs_queueitem AS item
       SET seq = due.number, check_time = NULL, stage = {Stage.PENDING:d}, run_no = due.this_run,
           action = {Action.PROCESS:d}, outcome = {Outcome.NONE:d}, result_code = '',
           failures = CASE WHEN due.stage = {Stage.DONE:d} THEN 0 ELSE item.failures END,
           failing_since = CASE WHEN due.stage = {Stage.DONE:d} THEN NULL ELSE item.failing_since END
      FROM due
     WHERE item.hash = due.hash AND item.job_id = due.job_id
    RETURNING item.job_id, item.lane_id, due.run_no AS old_run, item.run_no, due.stage AS old_stage,
              CASE WHEN due.stage = {Stage.DONE:d} THEN due.outcome ELSE 0 END AS old_outcome,
              CASE WHEN due.stage = {Stage.DONE:d} THEN due.result_code ELSE '' END AS old_code
), counted AS (
    INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
    SELECT job_id, lane_id, old_run, 'stage', old_stage, old_outcome, old_code, -count(*) FROM ripe
     WHERE (old_run, old_stage) <> (run_no, {Stage.PENDING:d})
     GROUP BY job_id, lane_id, old_run, old_stage, old_outcome, old_code
     UNION ALL
    SELECT job_id, lane_id, run_no, 'stage', {Stage.PENDING:d}, 0, '', count(*) FROM ripe
     WHERE (old_run, old_stage) <> (run_no, {Stage.PENDING:d})
     GROUP BY job_id, lane_id, run_no
)
SELECT * FROM (
    SELECT wanted.place, item.hash, item.job_id, item.seq, item.losses, item.admitted_run, fresh.batches
      FROM (SELECT array_agg(nextval('jobs_batch_id_seq')) AS batches FROM generate_series(1, %(most_batches)s)) AS fresh
     CROSS JOIN wanted CROSS JOIN LATERAL (
           SELECT hash, job_id, seq, losses, admitted_run
             FROM jobs_queueitem AS due
            WHERE lane_id = wanted.lane_id AND run_no = wanted.run_no AND stage = {Stage.PENDING:d} AND seq IS NOT NULL
              AND seq >= wanted.head AND seq < wanted.below
              AND NOT EXISTS (SELECT FROM jobs_queueitem AS other
                               WHERE other.hash = due.hash AND other.job_id <> due.job_id AND other.stage IN {CLAIMED})
            ORDER BY seq LIMIT wanted.count
              FOR NO KEY UPDATE SKIP LOCKED) AS item
     LIMIT %(most)s) AS found
 ORDER BY place, seq
"""

# The moment at which a lane that gave too few documents may give more. If a document is due already, it is now: the
# lane's head was wrong, or another job has claimed the document. Otherwise it is the moment when the first waiting
# document becomes due, or never (null: the lane is dormant).
_NEXT_READY: Final[LiteralString] = f"""
SELECT lane_id,
       CASE WHEN EXISTS (SELECT FROM jobs_queueitem AS item
                          WHERE item.lane_id = looked.lane_id AND item.run_no = looked.run_no AND item.stage = {Stage.PENDING:d}
                            AND item.seq IS NOT NULL AND item.seq < looked.below)
              OR (rechecks <> '' AND EXISTS (
                  SELECT FROM jobs_queueitem AS item
                   WHERE item.lane_id = looked.lane_id AND item.run_no < looked.run_no
                     AND item.stage = ANY(string_to_array(rechecks, ',')::int[])))
            THEN %(soon)s
            -- No row if no document waits: greatest() ignores a null, and the lane would never sleep.
            ELSE (SELECT greatest(item.check_time, %(now)s) FROM jobs_queueitem AS item
                   WHERE item.lane_id = looked.lane_id AND item.check_time IS NOT NULL AND item.stage IN {PENDING_OR_DONE}
                     AND item.run_no = looked.run_no
                   ORDER BY item.check_time LIMIT 1)
       END AS ready_at
  FROM unnest(%(lanes)s::bigint[], %(runs)s::int[], %(below)s::bigint[], %(rechecks)s::text[])
       AS looked(lane_id, run_no, below, rechecks)
"""

# The new states of bins with new turns, and of the lanes that were examined.
_OPENED: Final[LiteralString] = (
    "open_turns = state.open_turns + held.turns, open_requests = state.open_requests + held.requests"
)
_LEFT: Final[LiteralString] = """
       ready_at = held.ready_at, head = coalesce(held.head, state.head),
       served_at = CASE WHEN held.served THEN %(now)s ELSE state.served_at END, is_ahead = held.is_ahead"""
# All changes of an offer, in rows that this transaction holds.
_WRITE: Final[LiteralString] = f"""
WITH offered AS ({OFFER}), claimed AS (
    UPDATE jobs_queueitem AS item
       SET stage = {Stage.ACTIVE:d}, batch_id = taken.batch_id, admitted_run = item.run_no, rescan = false
      FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[], %(batches)s::bigint[]) AS taken(hash, job_id, batch_id)
     WHERE item.hash = taken.hash AND item.job_id = taken.job_id
), turned AS (
    INSERT INTO jobs_turn (batch_id, lane_id, bin_id, follows_id, documents, requests, gap, bytes_per_second, parents,
                           is_denied, is_trial)
    SELECT * FROM unnest(%(turn_batches)s::bigint[], %(turn_lanes)s::bigint[], %(turn_bins)s::bigint[],
                         %(turn_follows)s::bigint[], %(turn_documents)s::int[], %(turn_requests)s::int[],
                         %(turn_gaps)s::float[], %(turn_bytes)s::float[], %(turn_parents)s::jsonb[],
                         %(turn_denied)s::bool[], %(turn_trials)s::bool[])
), more AS (
    SELECT *
      FROM unnest(%(opened_bins)s::bigint[], %(opened_versions)s::bigint[], %(opened_turns)s::int[], %(opened_requests)s::int[])
           AS opened(id, version, turns, requests)
), opened AS (
    {write_states(_OPENED, of="bin", held="more")}
), counted AS (
    INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
    SELECT job_id, lane_id, run_no, 'stage', stage, 0, '', amount
      FROM unnest(%(count_jobs)s::bigint[], %(count_lanes)s::bigint[], %(count_runs)s::int[], %(count_documents)s::int[])
           AS moved(job_id, lane_id, run_no, documents),
           LATERAL (VALUES ({Stage.PENDING:d}, -documents), ({Stage.ACTIVE:d}, documents)) AS delta(stage, amount)
), spent AS (
    UPDATE jobs_budget AS budget SET admitted = budget.admitted + spent.amount
      FROM unnest(%(budget_jobs)s::bigint[], %(budget_amounts)s::bigint[]) AS spent(job_id, amount)
     WHERE budget.job_id = spent.job_id
), remaining AS (
    SELECT *
      FROM unnest(%(left_lanes)s::bigint[], %(left_versions)s::bigint[], %(left_ready)s::timestamptz[], %(left_heads)s::bigint[], %(left_served)s::bool[],
                  %(left_ahead)s::bool[])
           AS left_at(id, version, ready_at, head, served, is_ahead)
)
{write_states(_LEFT, of="lane", held="remaining")}
"""

_NEVER: Final = 1 << 62


@retried
def stuff(
    connection: psycopg.Connection[Any],
    *,
    manager: uuid.UUID,
    group: GroupHeld,
    room: int,
    workers: int,
    largest: int = MOST_A_TURN,
    worker_ids: Sequence[uuid.UUID] = (),
    cursors: LaneCursors | None = None,
    now: dt.datetime,
) -> Stuffed:
    """
    Offer about `room` due documents of one group to `workers` live workers; return the offers.

    No turn has more than `largest` documents. Each bin is assigned one of `worker_ids`, the worker that is preferred
    for its documents.

    Raises:
        FenceRefused: the manager was marked failed, or the group is no longer its own.
    """
    with implicit_transaction(connection) as cursor:
        held = hold(cursor, manager=manager, group=group, phases=[Phase.ACTIVE], cursors=cursors, now=now)
        if not held.lanes or room <= 0:
            return Stuffed()
        bins, parents = _read_bins(cursor, held, now=now)
        turns, waiting = plan_turns(
            bins=bins, parents=parents, lanes=held.lanes, workers=workers, largest=largest, now=now
        )
        chosen = _choose(cursor, held, turns=turns, room=room, now=now)
        kept = prefer_workers([plan for plan, _ in chosen.turns], bins=bins, workers=worker_ids)
        chosen.turns = [(plan, documents) for plan, (_, documents) in zip(kept, chosen.turns, strict=True)]
        stuffed, asleep = _offer(cursor, held, chosen=chosen, waiting=waiting, now=now)
    _wake_filled(connection, held, asleep=asleep, now=now)
    return stuffed


def _read_bins(cursor: psycopg.Cursor[Any], held: Held, *, now: dt.datetime) -> tuple[list[BinSeen], list[ParentSeen]]:
    """Return the facts of the held lanes' bins, and of the parents above them."""
    asked = {"group": held.group.id, "policy": held.policy, "scope": held.scope, "now": now}
    rows = cursor.execute(_BINS, {**asked, "bins": held.bins}).fetchall()
    applied = AppliedPolicies.read(cursor, rows, now=now)
    if totals := applied.totals(held.policy):
        names = {"names": [str(policy) for policy in totals]}
        locked = cursor.execute(_HOLD_TOTALS, names).fetchall()
        if len(locked) < len(totals) and cursor.execute(_MAKE_TOTALS, names).rowcount:
            locked = cursor.execute(_HOLD_TOTALS, names).fetchall()
        if len(locked) < len(totals):
            # Another stuffer has locked the row of a limit that all bins of the group share, so no document can be
            # offered.
            return [], []
        rows += cursor.execute(_BINS, {**asked, "bins": [row.id for row in locked]}).fetchall()
    bins: list[BinSeen] = []
    parents: list[ParentSeen] = []
    for row in rows:
        held.bin_versions[row.id] = row.version
        limits = applied.of_bin(row)
        if row.namespace in {Bin.ADDRESS, Bin.POLICY}:
            parents.append(
                ParentSeen(
                    id=row.id,
                    limits=limits,
                    not_before=next_start_at(row, gap=limits.gap, bytes_per_second=limits.bytes_per_second),
                    back_off_until=row.back_off_until,
                    open_requests=row.open_requests,
                    open_documents=row.documents or 0,
                    workers=frozenset(uuid.UUID(worker) if worker else None for worker in row.workers or ()),
                    whole_group=row.namespace == Bin.POLICY,
                )
            )
            continue
        bins.append(
            BinSeen(
                id=row.id,
                limits=limits,
                not_before=next_start_at(row, gap=limits.gap, bytes_per_second=limits.bytes_per_second),
                back_off_until=row.back_off_until,
                back_off_level=row.back_off_level,
                closed_at=row.closed_at,
                is_known=row.is_known,
                open_requests=row.open_requests,
                parent=row.parent_id,
                turns=[OpenTurn(turn, uuid.UUID(worker) if worker else None, more) for turn, worker, more in row.turns],
                has_rival=row.rival_priority is not None,
                rival_priority=row.rival_priority or 0,
                rival_served_at=row.rival_served_at,
                answer_seconds=row.answer_seconds,
                page_bytes=row.bytes_read / row.starts if row.starts else None,
            )
        )
    return bins, parents


@dataclass(slots=True)
class _Chosen:
    """
    The documents to hand out, and ids for their batches. The lanes in `tried` were read for them, and the lanes in
    `more` have further documents.

    `cut` is a lane whose documents were not all read because the room was used up.
    """

    turns: list[tuple[TurnPlan, list[Any]]] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    tried: set[int] = field(default_factory=set)
    more: set[int] = field(default_factory=set)
    cut: int | None = None

    @property
    def documents(self) -> int:
        return sum(len(documents) for _, documents in self.turns)


def _choose(cursor: psycopg.Cursor[Any], held: Held, *, turns: list[TurnPlan], room: int, now: dt.datetime) -> _Chosen:
    """
    Claim documents for the planned turns, one turn after the other, until the room is used up.

    Most lanes have as many documents as their turns want, so the first query reads only the lanes that fill the room.
    If these had fewer, a second query reads more lanes: a crawl of many hosts has lanes of one document.
    """
    chosen = _Chosen()
    within = _within(turns, room=room)
    if within:
        _add_documents(cursor, held, chosen, turns=within, most=sum(plan.documents + 1 for plan in within), now=now)
    left = room - chosen.documents
    more = [plan for plan in turns[len(within) :] if plan.lane.id not in chosen.tried][: max(0, left)]
    if more:
        _add_documents(cursor, held, chosen, turns=more, most=left, now=now)
    return chosen


def _within(turns: list[TurnPlan], *, room: int) -> list[TurnPlan]:
    """
    Return the first planned turns that fit into the room, and at least one, so that a large turn never waits forever.
    """
    kept: list[TurnPlan] = []
    for plan in turns:
        if kept and room < plan.documents:
            break
        kept.append(plan)
        room -= plan.documents
    return kept


def _add_documents(
    cursor: psycopg.Cursor[Any], held: Held, chosen: _Chosen, *, turns: list[TurnPlan], most: int, now: dt.datetime
) -> None:
    """
    Read the documents of each turn, at most `most` altogether; turns that stay empty are left out.

    The budgets are reduced by the admitted documents. A document with several losses gets a separate turn.
    """
    jobs, budgets = held.jobs, held.budgets
    # If one lane has several turns, it is read once for all of them.
    wants: dict[int, int] = {}
    for plan in turns:
        wants[plan.lane.id] = wants.get(plan.lane.id, 0) + plan.documents
    lanes = {plan.lane.id: plan.lane for plan in turns}
    rows = cursor.execute(
        _DOCUMENTS,
        {
            "lanes": list(wants),
            "jobs": [lanes[lane].job_id for lane in wants],
            "runs": [jobs[lanes[lane].job_id].run_no for lane in wants],
            # One document more than needed shows whether the lane has further documents.
            "counts": [count + 1 for count in wants.values()],
            "heads": [held.heads[lane] for lane in wants],
            "below": [_below(lanes[lane].job_id, budgets) for lane in wants],
            "rechecks": [RECHECKED[jobs[lanes[lane].job_id].scan] for lane in wants],
            "most_batches": len(turns),
            "most": most,
            "now": now,
        },
    ).fetchall()
    order = list(wants)
    found: dict[int, list[Any]] = {lane: [] for lane in order}
    for row in rows:
        lane = order[row.place - 1]
        if len(found[lane]) == wants[lane]:
            chosen.more.add(lane)
            continue
        if row.job_id in budgets and row.admitted_run != jobs[row.job_id].run_no:
            if budgets[row.job_id] <= 0:
                continue
            budgets[row.job_id] -= 1
        found[lane].append(row)
    turns_left = Counter(plan.lane.id for plan in turns)
    for plan in turns:
        queue = found[plan.lane.id]
        # Few documents are spread over the turns, so that all open requests of the bin are used.
        share = min(plan.documents, math.ceil(len(queue) / turns_left[plan.lane.id]))
        turns_left[plan.lane.id] -= 1
        documents = _up_to_a_suspect(queue[:share])
        del queue[: len(documents)]
        if documents:
            chosen.turns.append((plan, documents))
    # Documents that were cut off before a suspect give their places back to the budget, and wait for the next pass.
    for queue in found.values():
        for row in queue:
            if row.job_id in budgets and row.admitted_run != jobs[row.job_id].run_no:
                budgets[row.job_id] += 1
    if rows:
        chosen.ids += rows[0].batches
    reached = len(order)
    if rows and len(rows) == most:
        reached = rows[-1].place
        chosen.cut = order[reached - 1]
    chosen.tried.update(order[:reached])


def _below(job_id: int, budgets: dict[int, int]) -> int:
    """
    Return the upper limit of `seq`: a job whose budget is used up hands out only documents that already have a place in
    it.
    """
    return FIRST_FRESH if budgets.get(job_id, 1) <= 0 else _NEVER


def _up_to_a_suspect(documents: list[Any]) -> list[Any]:
    if documents and documents[0].losses >= _SUSPECT_LOSSES:
        return documents[:1]
    for index, document in enumerate(documents):
        if document.losses >= _SUSPECT_LOSSES:
            return documents[:index]
    return documents


def _offer(
    cursor: psycopg.Cursor[Any],
    held: Held,
    *,
    chosen: _Chosen,
    waiting: list[NoPlace],
    now: dt.datetime,
) -> tuple[Stuffed, list["_Left"]]:
    """
    Write the claimed documents as batches, and the next scan of each lane.

    Return the lanes that have no due documents except the offered ones: they sleep now.
    """
    jobs, budgets = held.jobs, held.budgets
    packed = _pack(chosen.turns)
    ids = chosen.ids[: len(packed)]
    rows = [(batch, plan, documents) for batch, pack in zip(ids, packed, strict=True) for plan, documents in pack]
    left = _new_states(cursor, held, chosen=chosen, waiting=waiting, now=now)
    admitted: dict[int, int] = {}
    for _, _, documents in rows:
        for document in documents:
            if document.job_id in budgets and document.admitted_run != jobs[document.job_id].run_no:
                admitted[document.job_id] = admitted.get(document.job_id, 0) + 1
    opened = _opened([plan for _, plan, _ in rows])
    if rows or left:
        cursor.execute(
            _WRITE,
            {
                "group": held.group.id,
                "scope": held.scope,
                "manager": held.manager,
                "kind": Batch.Kind.PROCESS.value,
                "offer_ids": ids,
                "offer_tags": [pack[0][0].lane.tag for pack in packed],
                "offer_workers": [pack[0][0].worker for pack in packed],
                "offer_preferred": [pack[0][0].preferred for pack in packed],
                "offer_documents": [sum(len(documents) for _, documents in pack) for pack in packed],
                "hashes": [document.hash for _, _, documents in rows for document in documents],
                "jobs": [document.job_id for _, _, documents in rows for document in documents],
                "batches": [batch for batch, _, documents in rows for _ in documents],
                "turn_batches": [batch for batch, _, _ in rows],
                "turn_lanes": [plan.lane.id for _, plan, _ in rows],
                "turn_bins": [plan.lane.bin_id for _, plan, _ in rows],
                "turn_follows": [plan.follows.id if plan.follows else None for _, plan, _ in rows],
                "turn_documents": [len(documents) for _, _, documents in rows],
                "turn_requests": [plan.requests for _, plan, _ in rows],
                "turn_gaps": [0.0 if plan.limits.denied else plan.limits.gap for _, plan, _ in rows],
                "turn_bytes": [plan.limits.bytes_per_second for _, plan, _ in rows],
                "turn_parents": [_paces_above(plan) for _, plan, _ in rows],
                "turn_denied": [plan.limits.denied for _, plan, _ in rows],
                "turn_trials": [plan.is_trial for _, plan, _ in rows],
                "opened_bins": list(opened),
                "opened_versions": [held.bin_versions[bin_id] for bin_id in opened],
                "opened_turns": [turns for turns, _ in opened.values()],
                "opened_requests": [requests for _, requests in opened.values()],
                "count_jobs": [plan.lane.job_id for _, plan, _ in rows],
                "count_lanes": [plan.lane.id for _, plan, _ in rows],
                "count_runs": [jobs[plan.lane.job_id].run_no for _, plan, _ in rows],
                "count_documents": [len(documents) for _, _, documents in rows],
                "budget_jobs": list(admitted),
                "budget_amounts": list(admitted.values()),
                "left_lanes": [lane.id for lane in left],
                "left_versions": [held.versions[lane.id] for lane in left],
                "left_ready": [lane.ready_at for lane in left],
                "left_heads": [lane.head for lane in left],
                "left_served": [lane.is_served for lane in left],
                "left_ahead": [lane.is_ahead for lane in left],
                "now": now,
            },
        )
    goes_to = [pack[0][0].worker or pack[0][0].preferred for pack in packed]
    stuffed = Stuffed(
        documents=sum(len(documents) for _, _, documents in rows),
        batches=len(ids),
        preferred=frozenset(worker for worker in goes_to if worker is not None),
        open_batches=goes_to.count(None),
    )
    return stuffed, [lane for lane in left if lane.is_empty]


def _opened(plans: list[TurnPlan]) -> dict[int, tuple[int, int]]:
    """Return the number of opened turns and of their requests for each bin, including parents."""
    opened: dict[int, tuple[int, int]] = {}
    for plan in plans:
        for bin_id in (plan.lane.bin_id, *(parent.id for parent in plan.parents)):
            turns, requests = opened.get(bin_id, (0, 0))
            opened[bin_id] = (turns + 1, requests + plan.requests)
    return opened


def _paces_above(plan: TurnPlan) -> str | None:
    """
    Return a turn's parents in their stored form: by id, the gap, the bytes a second, and the limit of open requests.
    """
    if not plan.parents:
        return None
    return json.dumps(
        {
            parent.id: [parent.limits.gap, parent.limits.bytes_per_second, parent.limits.requests]
            for parent in plan.parents
        }
    )


def _pack(chosen: list[tuple[TurnPlan, list[Any]]]) -> list[list[tuple[TurnPlan, list[Any]]]]:
    """
    Pack turns into batches.

    Small turns share a batch. Successors share a batch with others for the same worker. A document that may kill its
    worker is alone. Turns that need a tag have separate batches, and so do turns that must go to one worker together.
    New turns of one bin are for different workers, so they never share a batch.
    """
    packed: list[list[tuple[TurnPlan, list[Any]]]] = []
    filling: dict[Any, list[tuple[TurnPlan, list[Any]]]] = {}
    for plan, documents in chosen:
        if documents[0].losses >= _SUSPECT_LOSSES and plan.together is None:
            packed.append([(plan, documents)])
            continue
        goes_to = (plan.worker, plan.preferred, plan.together, plan.lane.tag)
        batch = filling.get(goes_to)
        size = sum(len(some) for _, some in batch or ())
        is_open = plan.worker is None and plan.together is None
        same_bin = is_open and any(other.lane.bin_id == plan.lane.bin_id for other, _ in batch or ())
        if batch is None or same_bin or (plan.together is None and size + len(documents) > _DOCUMENTS_A_BATCH):
            batch = filling[goes_to] = []
            packed.append(batch)
        batch.append((plan, documents))
    return packed


@dataclass(frozen=True, slots=True)
class _Left:
    """
    The new state of a lane: its next scan and its head; None keeps the head.

    A lane that `is_empty` had no due document.
    """

    id: int
    ready_at: dt.datetime | None
    head: int | None
    is_served: bool
    is_ahead: bool
    is_empty: bool = False


def _new_states(
    cursor: psycopg.Cursor[Any],
    held: Held,
    *,
    chosen: _Chosen,
    waiting: list[NoPlace],
    now: dt.datetime,
) -> list[_Left]:
    """Return the new state of each examined lane; a lane that was not reached keeps its state."""
    lanes = held.lanes
    given: dict[int, int] = {}
    last: dict[int, int] = {}
    planned: dict[int, int] = {}
    for plan, documents in chosen.turns:
        given[plan.lane.id] = given.get(plan.lane.id, 0) + len(documents)
        last[plan.lane.id] = documents[-1].seq
        planned[plan.lane.id] = planned.get(plan.lane.id, 0) + plan.documents
    left: list[_Left] = []
    # If the first lanes of a bin gave no documents, its places are still free. So its other lanes do not sleep.
    unused = {lane.bin_id for lane in lanes if lane.id in chosen.tried} - {plan.lane.bin_id for plan, _ in chosen.turns}
    asleep = {place.lane.id: place.until for place in waiting if place.until or place.lane.bin_id not in unused}
    short = [
        lane
        for lane in lanes
        if lane.id in chosen.tried
        and lane.id != chosen.cut
        and (lane.id not in chosen.more or given.get(lane.id, 0) < planned.get(lane.id, 1))
    ]
    # A lane that gave documents is scanned again soon. For a lane that gave none, read the moment at which it may give
    # some.
    soon = now + _ASK_AGAIN
    next_ready: dict[int, dt.datetime | None] = {lane.id: soon for lane in short if lane.id in given}
    if empty := [lane for lane in short if lane.id not in given]:
        next_ready |= _next_ready(cursor, held, empty, now=now)
    for lane in lanes:
        served = lane.id in given
        if lane.id in next_ready:
            # The lane gave too few documents, so the next scan starts at the beginning of the lane.
            left.append(
                _Left(lane.id, next_ready[lane.id], head=0, is_served=True, is_ahead=False, is_empty=not served)
            )
        elif served:
            # All places of its bin are taken. The next take or close of a turn of this bin wakes the lane.
            left.append(_Left(lane.id, now + LOST_PLACE, head=last[lane.id] + 1, is_served=True, is_ahead=True))
        elif lane.id in asleep:
            until = asleep[lane.id]
            # A lane that was never served keeps its place. For a lane that was served, it is known whether it has more
            # documents.
            is_ahead = lane.is_ahead or lane.served_at is None
            left.append(_Left(lane.id, until or now + LOST_PLACE, head=None, is_served=False, is_ahead=is_ahead))
    return left


def _next_ready(
    cursor: psycopg.Cursor[Any], held: Held, lanes: Sequence[LaneSeen], *, now: dt.datetime
) -> dict[int, dt.datetime | None]:
    """
    Return the moment from which each of these lanes may give a document; None for a dormant lane. The lanes gave no
    document in this pass.
    """
    jobs = held.jobs
    rows = cursor.execute(
        _NEXT_READY,
        {
            "lanes": [lane.id for lane in lanes],
            "runs": [jobs[lane.job_id].run_no for lane in lanes],
            "below": [_below(lane.job_id, held.budgets) for lane in lanes],
            "rechecks": [RECHECKED[jobs[lane.job_id].scan] for lane in lanes],
            "now": now,
            "soon": now + _ASK_AGAIN,
        },
    )
    return {row.lane_id: row.ready_at for row in rows}


def _wake_filled(connection: psycopg.Connection[Any], held: Held, *, asleep: Sequence[_Left], now: dt.datetime) -> None:
    """
    Wake lanes that a flush filled while this transaction put them to sleep.

    That flush saw them awake, and did not wake them. It has committed before this transaction did, so its documents
    are visible now. A flush that commits later sees the lanes asleep, and wakes them.
    """
    until = {lane.id: lane.ready_at for lane in asleep}
    lanes = [lane for lane in held.lanes if lane.id in until]
    if not lanes:
        return
    with named_rows(connection) as cursor:
        ready = _next_ready(cursor, held, lanes, now=now)
    wake_lanes(connection, [lane for lane, at in ready.items() if at and at < (until[lane] or _FOREVER)], now=now)


_FOREVER: Final = dt.datetime.max.replace(tzinfo=dt.UTC)
# Delay of the next scan of a lane that gave fewer documents than wanted.
_ASK_AGAIN: Final = dt.timedelta(milliseconds=250)
