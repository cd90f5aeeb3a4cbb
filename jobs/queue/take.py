"""
Taking: a worker gets batches, with the facts about documents, paces and hosts that it needs.

Taking is one statement, and so one transaction. The batches were committed together with their documents and turns. A
worker that loses the answer finds the missing batches when it compares its batches with the database.
"""

import datetime as dt
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import Document
from jobs.queue.flushing.carried import merged
from jobs.queue.pace.addresses import HOLDS_FOR_ADDRESSES
from jobs.queue.pace.next_start import LAST_USE_COLUMNS
from jobs.queue.sql.low_water import LOWEST_BATCH
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.states import lock_states, read_states, write_states
from jobs.throttling.bins import LONGEST_PLAN
from jobs.throttling.next_start import LastUse, next_start_at, opens_at
from nodes.membership.fences import MAY_WRITE, refused_node
from nodes.membership.incarnation import remembered

# Age of a batch up to which the preferred worker of its bin has the first chance to take it.
_COURTESY: Final = dt.timedelta(milliseconds=250)
# Age of an offer above which the worker reads the limits of its turns again. An edit since then may apply to other
# workers before this one's regular check.
_TRUSTED: Final = LONGEST_PLAN / 2

_LAST_USE: Final[LiteralString] = f"{LAST_USE_COLUMNS}, starts, bytes_read"
_PAGE_BYTES: Final[LiteralString] = "state.bytes_read::float / nullif(state.starts, 0)"

# The number of running workers as the main manager counted it. A worker of a large cluster must not count them itself.
_WORKERS: Final[LiteralString] = """
           coalesce((SELECT (main.progress ->> 'workers')::int
                       FROM node JOIN nodes_mainterm AS term ON term.scope = node.scope AND NOT term.resigned
                       JOIN nodes_node AS main ON main.id = term.main_id),
                    (SELECT count(*) FROM nodes_node AS other, node
                      WHERE other.scope = node.scope AND other.kind = 'worker' AND other.status = 'running'))"""

# The oldest batches that fit into the room: first successors of the worker's turns, then batches that prefer the
# worker, then its share of all other batches. A worker without documents always gets a batch. A bin stays with the
# worker that got its first turns, so the first worker that wakes must not get all batches. Locks: Node KEY SHARE, then
# Batch, skipping locked rows; then Lane by id: no process that holds a lane waits for an offered batch.
_TAKE: Final[LiteralString] = f"""
WITH node AS MATERIALIZED (
    SELECT id, scope, tags FROM nodes_node WHERE id = %(worker)s AND {MAY_WRITE} FOR KEY SHARE
), kept AS MATERIALIZED (
    SELECT id, documents, kind,
           -- First successors of turns with a pace, then other successors, then new turns.
           CASE WHEN worker_id IS NULL THEN 2
                WHEN EXISTS (SELECT FROM jobs_turn WHERE batch_id = jobs_batch.id AND gap > 0) THEN 0 ELSE 1 END AS turn
      FROM jobs_batch
     WHERE state = 'available' AND node_scope = (SELECT scope FROM node) AND id >= {LOWEST_BATCH}
       AND (worker_id = %(worker)s OR worker_id IS NULL AND preferred = %(worker)s) AND kind <> ALL(%(not_mine)s)
     ORDER BY worker_id IS NULL, id LIMIT 64
       FOR NO KEY UPDATE SKIP LOCKED
), open AS MATERIALIZED (
    SELECT id, documents, kind FROM jobs_batch
     WHERE state = 'available' AND node_scope = (SELECT scope FROM node) AND worker_id IS NULL AND id >= {LOWEST_BATCH}
       AND kind <> ALL(%(not_mine)s) AND (tag = '' OR tag = ANY((SELECT tags FROM node)::text[]))
       -- A batch for another worker once it is late; if bins are kept strictly, once that worker no longer runs.
       AND (preferred IS NULL OR preferred <> %(worker)s AND CASE WHEN %(strict)s
            THEN NOT EXISTS (SELECT FROM nodes_node AS worker WHERE worker.id = preferred AND worker.status = 'running')
            ELSE created_at < %(now)s - %(courtesy)s END)
     ORDER BY id
     LIMIT (SELECT least(64, ceil(count(*)::float / greatest(1, {_WORKERS})))
              FROM jobs_batch
             WHERE state = 'available' AND node_scope = (SELECT scope FROM node) AND worker_id IS NULL AND id >= {LOWEST_BATCH})
       FOR NO KEY UPDATE SKIP LOCKED
), offered AS (
    SELECT turn, id, documents, kind FROM kept UNION ALL SELECT 3, id, documents, kind FROM open
), within AS (
    -- At most the size of its pool for each kind, but always one batch.
    SELECT turn, id, documents
      FROM (SELECT *, sum(documents) OVER (PARTITION BY kind ORDER BY turn, id) AS of_kind FROM offered) AS running
      LEFT JOIN unnest(%(kinds)s::text[], %(pools)s::int[]) AS pool(limited, size) ON pool.limited = kind
     WHERE size IS NULL OR of_kind <= size OR of_kind = documents
), fitting AS (
    SELECT id FROM (SELECT turn, id, documents, sum(documents) OVER (ORDER BY turn, id) AS total FROM within) AS running
     WHERE total <= %(room)s - CASE turn WHEN 0 THEN 0 ELSE %(reserved)s END OR (%(idle)s AND total = documents)
), taken AS (
    UPDATE jobs_batch AS batch
       SET state = 'sent', worker_id = %(worker)s, sent_at = clock_timestamp()
      FROM fitting WHERE batch.id = fitting.id
    RETURNING batch.id, batch.kind, batch.created_at
), item AS MATERIALIZED (
    SELECT taken.kind, item.*
      FROM taken JOIN jobs_queueitem AS item ON item.batch_id = taken.id
), lane AS MATERIALIZED (
    -- Each lane once, and not for each of its documents.
    SELECT state.*, named.has_turns
      FROM (SELECT lane_id, bool_or(kind = 'process') AS has_turns FROM item GROUP BY lane_id) AS named
     CROSS JOIN LATERAL {read_states("lane_id AS id, version, seed_id, ready_at", of="lane", number="named.lane_id")} AS state
), sleeping AS MATERIALIZED (
    {lock_states(of="lane", seen="SELECT id, version FROM lane WHERE has_turns AND ready_at > %(now)s")}
), woken AS (
    -- A sent turn can have a successor, so its lane becomes ready.
    {write_states("ready_at = least(state.ready_at, %(now)s)", of="lane", held="sleeping")}
), job AS MATERIALIZED (
    SELECT id, run_no, specification_version, revision, carries, pipeline <> '{{}}' AS is_staged,
           -- Without such an output, no document needs the look-ups of its version.
           EXISTS (SELECT FROM jobs_job_outputs AS link JOIN jobs_outputconnection AS output ON output.id = link.outputconnection_id
                    WHERE link.job_id = jobs_job.id AND output.connector <> 'null') AS holds
      FROM jobs_job WHERE id = ANY(ARRAY(SELECT DISTINCT job_id FROM item))
), document AS (
    SELECT item.kind, item.hash, item.job_id, item.lane_id, item.batch_id, item.identifier, item.depth, item.redirects,
           item.failures, CASE WHEN item.failures > 0 THEN item.failures_by_cause END AS failures_by_cause,
           coalesce(extract(epoch FROM clock_timestamp() - item.failing_since), 0)::float AS failing_for,
           item.seq, job.run_no, lane.seed_id, job.specification_version, job.revision, job.carries,
           item.indexed_before OR item.version <> '' OR item.validators <> '' AS is_known,
           CASE WHEN job.carries
                THEN (SELECT json_agg(passed.carried) FROM jobs_carrydown AS passed
                       WHERE passed.job_id = item.job_id AND passed.child = item.hash) END AS carried,
           -- A version is valid only if every output that holds documents has exactly this one, and is trusted.
           CASE WHEN item.version = '' OR NOT job.holds THEN item.version
                WHEN (SELECT count(*) FROM jobs_indexeddocument AS held JOIN jobs_job_outputs AS link
                          ON link.outputconnection_id = held.output_id AND link.job_id = item.job_id
                        JOIN jobs_outputconnection AS holder ON holder.id = held.output_id
                       WHERE held.hash = item.hash
                         -- A pipeline made another version of it.
                         AND CASE held.read_version WHEN '' THEN held.version ELSE held.read_version END = item.version
                         AND (holder.trusted_from IS NULL OR held.indexed_at >= holder.trusted_from))
                   + CASE WHEN job.is_staged
                          THEN (SELECT count(*) FROM jobs_pipelinerefusal AS refusal JOIN jobs_job_outputs AS link
                                    ON link.outputconnection_id = refusal.output_id AND link.job_id = refusal.job_id
                                  JOIN jobs_outputconnection AS output ON output.id = refusal.output_id
                                 WHERE refusal.job_id = item.job_id AND refusal.hash = item.hash
                                   AND refusal.version = item.version AND output.connector <> 'null')
                          ELSE 0 END
                   = (SELECT count(*) FROM jobs_job_outputs AS link JOIN jobs_outputconnection AS output
                          ON output.id = link.outputconnection_id
                       WHERE link.job_id = item.job_id AND output.connector <> 'null')
                THEN item.version ELSE '' END AS version,
           item.validators
      FROM item JOIN lane ON lane.id = item.lane_id JOIN job ON job.id = item.job_id
)
SELECT (SELECT count(*) FROM node) AS nodes, clock_timestamp() AS taken_at,
       -- Only in the first row, instead of with each document.
       CASE WHEN row_number() OVER (ORDER BY document.batch_id, document.lane_id, document.seq) = 1 THEN
       (SELECT coalesce(json_agg(json_build_object(
                   'id', turn.id, 'batch_id', turn.batch_id, 'lane_id', turn.lane_id, 'bin_id', turn.bin_id,
                   'bin', bin.name, 'follows', turn.follows_id, 'documents', turn.documents, 'requests', turn.requests,
                   'gap', turn.gap, 'bytes_per_second', turn.bytes_per_second, 'is_known', bin.is_known,
                   'is_denied', turn.is_denied, 'is_trial', turn.is_trial,
                   'is_old', (SELECT created_at < %(now)s - %(trusted)s FROM taken WHERE taken.id = turn.batch_id),
                   'wants_address', CASE WHEN NOT bin.is_known AND bin.address = '' AND NOT turn.is_denied
                                         THEN {HOLDS_FOR_ADDRESSES} ELSE false END,
                   'last_use', json_build_array(state.last_start_at, state.not_before, state.paid_rate, {_PAGE_BYTES}),
                   'back_off_until', bin.back_off_until,
                   'parents', (SELECT json_agg(json_build_array(
                                      above.id, pace -> 0, pace -> 1,
                                      json_build_array(state.last_start_at, state.not_before, state.paid_rate, {_PAGE_BYTES}),
                                      above.back_off_until, pace -> 2))
                                 FROM jsonb_each(turn.parents) AS given(id, pace)
                                 JOIN jobs_bin AS above ON above.id = given.id::bigint
                                CROSS JOIN LATERAL {read_states(_LAST_USE, of="bin", number="above.id")} AS state)
               ) ORDER BY turn.id), '[]')
          FROM jobs_turn AS turn JOIN jobs_bin AS bin ON bin.id = turn.bin_id
         CROSS JOIN LATERAL {read_states(_LAST_USE, of="bin", number="bin.id")} AS state
         WHERE turn.batch_id IN (SELECT id FROM taken)) END AS turns,
       document.*
  FROM (SELECT 1) AS always LEFT JOIN document ON true
 ORDER BY document.batch_id, document.lane_id, document.seq
"""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A document with its claim, and the job, seed and lane that it belongs to."""

    document: Document
    job_id: int
    run_no: int
    seed_id: int
    lane_id: int
    batch_id: int
    specification_version: int
    revision: int = 1
    # True if the job has carry-down: then the values that the document passed before may have to be removed.
    carries: bool = False
    # True if the document was read before, or an output may have it. Also true if it must be read like a new one.
    is_known: bool = False


@dataclass(frozen=True, slots=True)
class PaceTaken:
    """
    The pace of a bin: `wait` is the time until the first request may start, and `gap` the time between two starts
    (seconds).

    `bytes_per_second` is None if bytes are not limited. A parent also has the number of `requests` that may be open
    in all its turns together. `used_before` is the age of the last stored start, at any worker, in seconds, and
    `page_bytes` the mean size of a page so far.
    """

    bin_id: int
    gap: float
    bytes_per_second: float | None
    wait: float
    requests: int | None = None
    used_before: float | None = None
    page_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class TurnTaken:
    """
    Documents of one lane, and the paces of their requests, for their bin and each of its parents.

    `requests` is the number of requests that may be open at the same time; 0 for a successor, which inherits the
    requests of the turn before it. A denied turn sends no request. A good answer in a trial lowers the back-off level
    of a bin.
    """

    id: int
    batch_id: int
    bin: str
    follows: int | None
    requests: int
    pace: PaceTaken
    # True if the robots.txt of the bin's host was requested before.
    is_known: bool
    documents: tuple[Claimed, ...]
    parents: tuple[PaceTaken, ...] = ()
    is_denied: bool = False
    is_trial: bool = False
    # True if the turn is older than `_TRUSTED`: other workers may have newer limits.
    is_old: bool = False
    # True if the address of the host must be known before the first request, because a policy has limits for addresses.
    wants_address: bool = False

    @property
    def bin_id(self) -> int:
        return self.pace.bin_id


@dataclass(frozen=True, slots=True)
class Taken:
    """The batches that a worker got: turns to process, and documents to remove from the outputs, by kind."""

    turns: list[TurnTaken] = field(default_factory=list)
    removals: dict[str, list[Claimed]] = field(default_factory=dict)

    @property
    def documents(self) -> int:
        return sum(len(turn.documents) for turn in self.turns) + sum(len(found) for found in self.removals.values())


def take(
    connection: psycopg.Connection[Any],
    *,
    worker: uuid.UUID,
    room: int,
    idle: bool,
    pools: Mapping[str, int] = MappingProxyType({}),
    reserved: int = 0,
    strict: bool = False,
    now: dt.datetime,
) -> Taken:
    """
    Take the oldest batches that fit into `room` documents; at least one if the worker is `idle`.

    Batches that follow turns of this worker come first. `reserved` is the part of the room for successors of turns with
    a pace. `pools` limits the documents of some kinds of batches; 0 is none. If `strict`, the worker takes no batch
    that prefers another running worker.

    Raises:
        FenceRefused: the worker was marked failed or has stopped, or the database was restored to an older state.
    """
    with named_rows(connection, binary=True) as cursor:
        rows = cursor.execute(
            _TAKE,
            {
                "worker": worker,
                "room": room,
                "reserved": reserved,
                "idle": idle,
                "kinds": list(pools),
                "pools": list(pools.values()),
                "not_mine": [kind for kind, size in pools.items() if not size],
                "strict": strict,
                "courtesy": _COURTESY,
                "trusted": _TRUSTED,
                "now": now,
                **remembered(worker),
            },
        ).fetchall()
    if not rows[0].nodes:
        raise refused_node(connection, worker)
    found: dict[tuple[int, int], list[Claimed]] = {}
    taken = Taken()
    for row in rows:
        if row.hash is None:
            continue
        claimed = _claimed(row)
        if row.kind == "process":
            found.setdefault((row.batch_id, row.lane_id), []).append(claimed)
        else:
            taken.removals.setdefault(row.kind, []).append(claimed)
    taken_at = rows[0].taken_at
    for facts in rows[0].turns:
        # Turns of one batch and one lane share its documents, in the order of the lane.
        queue = found.get((facts["batch_id"], facts["lane_id"]), [])
        taken.turns.append(
            TurnTaken(
                id=facts["id"],
                batch_id=facts["batch_id"],
                bin=facts["bin"],
                follows=facts["follows"],
                requests=facts["requests"],
                pace=_pace(
                    facts["bin_id"],
                    facts["gap"],
                    facts["bytes_per_second"],
                    facts["last_use"],
                    facts["back_off_until"],
                    taken_at=taken_at,
                ),
                parents=tuple(_pace(*above, taken_at=taken_at) for above in facts["parents"] or ()),
                is_known=facts["is_known"],
                is_denied=facts["is_denied"],
                is_trial=facts["is_trial"],
                is_old=facts["is_old"],
                wants_address=facts["wants_address"],
                documents=tuple(queue[: facts["documents"]]),
            )
        )
        del queue[: facts["documents"]]
    return taken


def _pace(
    bin_id: int,
    gap: float,
    bytes_per_second: float | None,
    last_use: tuple[str | None, str | None, float | None, float | None],
    back_off_until: str | None,
    requests: int | None = None,
    *,
    taken_at: dt.datetime,
) -> PaceTaken:
    last_start_at, not_before, paid_rate, page_bytes = last_use
    use = LastUse(_moment(last_start_at), _moment(not_before), paid_rate)
    next_start = next_start_at(use, gap=gap, bytes_per_second=bytes_per_second)
    earliest_start = opens_at(next_start, back_off_until=_moment(back_off_until)) or taken_at
    used_before = None if use.last_start_at is None else (taken_at - use.last_start_at).total_seconds()
    return PaceTaken(
        bin_id,
        gap,
        bytes_per_second,
        max(0.0, (earliest_start - taken_at).total_seconds()),
        requests,
        used_before,
        page_bytes,
    )


def _moment(stored: str | None) -> dt.datetime | None:
    return None if stored is None else dt.datetime.fromisoformat(stored)


def _claimed(row: Any) -> Claimed:
    return Claimed(
        document=Document(
            hash=row.hash.hex,
            identifier=row.identifier,
            depth=row.depth,
            redirects=row.redirects,
            version=row.version,
            validators=row.validators,
            failures=row.failures,
            failing_for=row.failing_for,
            carried=merged(row.carried) if row.carried else None,
            failures_by_cause=row.failures_by_cause,
        ),
        job_id=row.job_id,
        run_no=row.run_no,
        seed_id=row.seed_id,
        lane_id=row.lane_id,
        batch_id=row.batch_id,
        specification_version=row.specification_version,
        revision=row.revision,
        carries=row.carries,
        is_known=row.is_known,
    )
