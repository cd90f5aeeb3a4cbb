"""
Applying: a chunk of another partition becomes documents of this partition. One transaction stores the documents and
counts the chunk.

A document that already exists here stays as it is. It is newer than the document in the chunk, because only a restored
database sends a document again.
"""

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, LiteralString

import psycopg
from psycopg.types.json import Jsonb

from jobs.connectors.repository import registry
from jobs.queue.discover import open_lanes
from jobs.queue.moving import tombstones
from jobs.queue.moving.chunks import Chunk, count_moved
from jobs.queue.sql.order import CLASS_BITS
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.states import lock_newest_states, write_states
from jobs.queue.wake import wake_lanes
from nodes.membership.fences import TermHeld, hold_term

_JOBS: Final[LiteralString] = """
SELECT known.number, job.id, repository.connector
  FROM jobs_partitionedjob AS known JOIN jobs_job AS job ON job.id = known.job_id
  JOIN jobs_repositoryconnection AS repository ON repository.id = job.repository_id
 WHERE known.number = ANY(%(numbers)s)
"""
# Another seed of the job takes the place of a seed that does not exist here, as for arriving references.
_SEEDS: Final[LiteralString] = """
SELECT given.job_id, given.seed, found.id
  FROM unnest(%(jobs)s::bigint[], %(seeds)s::text[]) AS given(job_id, seed)
 CROSS JOIN LATERAL (SELECT id FROM jobs_seed
                      WHERE job_id = given.job_id AND removed_at IS NULL
                      ORDER BY md5(urls[1]) <> given.seed, id LIMIT 1) AS found
"""
_OUTPUTS: Final[LiteralString] = "SELECT name, id FROM jobs_outputconnection"
# A document gets a new `seq` of this database, in the class that it had before (`jobs.queue.sql.order`). Locks: the
# rows that it inserts, by hash.
_DOCUMENTS: Final[LiteralString] = f"""
INSERT INTO jobs_queueitem
SELECT item.*
  FROM unnest(%(rows)s::jsonb[], %(jobs)s::bigint[], %(lanes)s::bigint[]) AS given(body, job_id, lane_id)
 CROSS JOIN LATERAL jsonb_populate_record(NULL::jobs_queueitem, given.body || jsonb_build_object(
       'job_id', given.job_id, 'lane_id', given.lane_id, 'batch_id', NULL,
       'seq', ((given.body ->> 'seq')::bigint >> {CLASS_BITS} << {CLASS_BITS}) + nextval('jobs_document_number'))) AS item
 ORDER BY item.hash, item.job_id
ON CONFLICT (hash, job_id) DO NOTHING
RETURNING hash, job_id, lane_id, run_no, stage, outcome, result_code
"""
# The documents belong to this partition now, so links to them are no longer foreign. Locks: ForeignLink by hash.
_NO_LONGER_FOREIGN: Final[LiteralString] = """
DELETE FROM jobs_foreignlink AS link
 USING unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS own(hash, job_id)
 WHERE link.hash = own.hash AND link.job_id = own.job_id
"""
# Inserts the links of the chunk to documents of other partitions. A known link of an earlier run becomes one of the run
# of the chunk, so that it is sent again if its partition is restored. Locks: ForeignLink by hash.
_FOREIGN: Final[LiteralString] = """
INSERT INTO jobs_foreignlink AS known
       (hash, job_id, seed_id, target, identifier, bin, run_no, depth, redirects, found_on, edges)
SELECT link.hash, given.job_id, given.seed_id, given.target, link.identifier, link.bin, link.run_no, link.depth,
       link.redirects, link.found_on, '{}'
  FROM unnest(%(rows)s::jsonb[], %(jobs)s::bigint[], %(seeds)s::bigint[], %(targets)s::text[])
       AS given(body, job_id, seed_id, target)
 CROSS JOIN LATERAL jsonb_to_record(given.body)
       AS link(hash uuid, identifier text, bin text, run_no int, depth int, redirects smallint, found_on uuid)
 ORDER BY link.hash, given.job_id
ON CONFLICT (hash, job_id) DO UPDATE
   SET target = excluded.target, run_no = excluded.run_no, depth = excluded.depth, redirects = excluded.redirects,
       found_on = excluded.found_on
 WHERE known.run_no < excluded.run_no
"""
# Statements that insert rows of a job, and below of an output, with the id that the job or the output has in this
# database. `{table}` is a name from this module.
_OF_JOBS: Final[Mapping[str, LiteralString]] = {
    "links": """
INSERT INTO jobs_outlinks
SELECT row.* FROM unnest(%(rows)s::jsonb[], %(jobs)s::bigint[]) AS given(body, job_id)
 CROSS JOIN LATERAL jsonb_populate_record(NULL::jobs_outlinks, given.body || jsonb_build_object('job_id', given.job_id)) AS row
 ORDER BY row.hash, row.job_id
ON CONFLICT (hash, job_id) DO NOTHING
""",
    "versions": """
INSERT INTO jobs_documentversion
SELECT row.* FROM unnest(%(rows)s::jsonb[], %(jobs)s::bigint[]) AS given(body, job_id)
 CROSS JOIN LATERAL jsonb_populate_record(NULL::jobs_documentversion, given.body || jsonb_build_object('job_id', given.job_id)) AS row
 ORDER BY row.hash, row.job_id, row.number
ON CONFLICT (hash, job_id, number) DO NOTHING
""",
    "edges": """
INSERT INTO jobs_redirectedge
SELECT row.* FROM unnest(%(rows)s::jsonb[], %(jobs)s::bigint[]) AS given(body, job_id)
 CROSS JOIN LATERAL jsonb_populate_record(NULL::jobs_redirectedge, given.body || jsonb_build_object('job_id', given.job_id)) AS row
 ORDER BY row.hash, row.job_id
ON CONFLICT (hash, job_id) DO NOTHING
""",
}
_OF_OUTPUTS: Final[Mapping[str, LiteralString]] = {
    "records": """
INSERT INTO jobs_indexeddocument
SELECT row.* FROM unnest(%(rows)s::jsonb[], %(outputs)s::bigint[]) AS given(body, output_id)
 CROSS JOIN LATERAL jsonb_populate_record(NULL::jobs_indexeddocument,
                                          given.body || jsonb_build_object('output_id', given.output_id)) AS row
 ORDER BY row.output_id, row.hash
ON CONFLICT (output_id, hash) DO NOTHING
""",
    "texts": """
INSERT INTO jobs_searchdocument
SELECT row.* FROM unnest(%(rows)s::jsonb[], %(outputs)s::bigint[]) AS given(body, output_id)
 CROSS JOIN LATERAL jsonb_populate_record(NULL::jobs_searchdocument,
                                          given.body || jsonb_build_object('output_id', given.output_id)) AS row
 ORDER BY row.output_id, row.hash
ON CONFLICT (output_id, hash) DO NOTHING
""",
}
_REFUSALS: Final[LiteralString] = """
INSERT INTO jobs_pipelinerefusal
SELECT row.* FROM unnest(%(rows)s::jsonb[], %(jobs)s::bigint[], %(outputs)s::bigint[]) AS given(body, job_id, output_id)
 CROSS JOIN LATERAL jsonb_populate_record(NULL::jobs_pipelinerefusal,
       given.body || jsonb_build_object('job_id', given.job_id, 'output_id', given.output_id)) AS row
 ORDER BY row.job_id, row.hash, row.output_id
ON CONFLICT (job_id, hash, output_id) DO NOTHING
"""
_ACCESS: Final[LiteralString] = """
INSERT INTO jobs_searchaccess
SELECT row.* FROM unnest(%(rows)s::jsonb[]) AS given(body)
 CROSS JOIN LATERAL jsonb_populate_record(NULL::jobs_searchaccess, given.body) AS row
 ORDER BY row.digest, row.place
ON CONFLICT (digest, place) DO NOTHING
"""
# The stricter value of both partitions: a back-off or a stop continues, wherever it began. Locks: Bin by id.
_HOSTS: Final[LiteralString] = """
UPDATE jobs_bin AS bin
   SET back_off_until = greatest(bin.back_off_until, arrived.back_off_until),
       back_off_level = greatest(bin.back_off_level, arrived.back_off_level),
       backing_off_since = coalesce(bin.backing_off_since, arrived.backing_off_since),
       "interval" = greatest(bin."interval", arrived."interval"),
       stopped_at = coalesce(bin.stopped_at, arrived.stopped_at),
       stopped_by = CASE WHEN bin.stopped_at IS NULL THEN arrived.stopped_by ELSE bin.stopped_by END,
       stopped_why = CASE WHEN bin.stopped_at IS NULL THEN arrived.stopped_why ELSE bin.stopped_why END,
       stops_every_port = bin.stops_every_port OR arrived.stops_every_port
  FROM unnest(%(rows)s::jsonb[]) AS given(body)
 CROSS JOIN LATERAL jsonb_populate_record(NULL::jobs_bin, given.body) AS arrived
 WHERE bin.namespace = arrived.namespace AND bin.name = arrived.name
RETURNING bin.id, arrived.name
"""
_NEW_HOSTS: Final[LiteralString] = """
WITH made AS (
    INSERT INTO jobs_bin (namespace, name, "interval", is_known, usual_requests, usual_gap)
    SELECT arrived.namespace, arrived.name, 0, false, arrived.usual_requests, arrived.usual_gap
      FROM unnest(%(rows)s::jsonb[]) AS given(body)
     CROSS JOIN LATERAL jsonb_populate_record(NULL::jobs_bin, given.body) AS arrived
     ORDER BY arrived.name
    ON CONFLICT (namespace, name) DO NOTHING
    RETURNING id
)
INSERT INTO jobs_binstate (bin_id) SELECT id FROM made
"""
# The other partition may have sent a request to the host just now, so the gap begins at this moment. Locks: BinState by
# bin.
_PACE: Final[LiteralString] = f"""
WITH arrived AS MATERIALIZED (
    SELECT id, not_before FROM unnest(%(bins)s::bigint[], %(not_before)s::timestamptz[]) AS given(id, not_before)
), locked AS MATERIALIZED (
    {lock_newest_states(of="bin", numbers="SELECT id FROM arrived")}
), paced AS MATERIALIZED (
    SELECT locked.id, locked.version, arrived.not_before FROM locked JOIN arrived USING (id)
)
{
    write_states(
        "last_start_at = greatest(state.last_start_at, clock_timestamp()), not_before = greatest(state.not_before, held.not_before)",
        of="bin",
        held="paced",
    )
}
"""

# Stores the number of applied chunks, in the transaction of a chunk.
Note = Callable[[Chunk], object]


class JobUnknown(Exception):
    """A chunk has documents of a job that this partition has not stored yet."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"job {number} of the control partition is not stored here yet")


def apply_chunk(
    connection: psycopg.Connection[Any],
    chunk: Chunk,
    *,
    term: TermHeld,
    foreign: Callable[[str], str | None],
    is_deleted: Callable[[int], bool],
    note: Note,
    now: dt.datetime,
) -> int:
    """
    Store the documents of a chunk; return the number of documents that are new here.

    `foreign` names the other partition of a host. Documents of a job are left out if `is_deleted` returns True for its
    number.

    Raises:
        FenceRefused: the term is no longer the main manager's.
        JobUnknown: a job is not stored here yet. Nothing was changed.
    """
    body = chunk.body
    # A chunk from a partition with an earlier release has no list of tombstones.
    numbers = {one["job"] for kind in ("documents", "tombstones") for one in body.get(kind, ())}
    with named_rows(connection) as cursor:
        jobs = {row.number: row for row in cursor.execute(_JOBS, {"numbers": list(numbers)}).fetchall()}
    for number in numbers - jobs.keys():
        if not is_deleted(number):
            raise JobUnknown(number)
    ids = {number: job.id for number, job in jobs.items()}
    documents = [one for one in body["documents"] if one["job"] in ids]
    targets = [one for one in body["targets"] if one["job"] in ids and foreign(one["bin"]) is not None]
    seeds = _seeds_of(connection, ids, [*documents, *targets])
    lanes: dict[tuple[int, str], int] = {}
    for connector in {job.connector for job in jobs.values()}:
        wanted = {
            (seeds[one["job"], one["seed"]], one["bin"]) for one in documents if jobs[one["job"]].connector == connector
        }
        if wanted:
            lanes |= open_lanes(connection, bins=registry.find(connector).bins, wanted=wanted)
    placed = [(one, ids[one["job"]], lanes[seeds[one["job"], one["seed"]], one["bin"]]) for one in documents]
    named = [(one, ids[one["job"]], seeds[one["job"], one["seed"]], foreign(one["bin"])) for one in targets]
    return _store(connection, chunk, placed, named, ids, term=term, note=note, now=now)


def _seeds_of(
    connection: psycopg.Connection[Any], ids: Mapping[int, int], rows: Sequence[Mapping[str, Any]]
) -> dict[tuple[int, str], int]:
    """Return the id of each seed here, by the number of its job and its hash."""
    pairs = sorted({(one["job"], one["seed"]) for one in rows})
    facts = {"jobs": [ids[number] for number, _ in pairs], "seeds": [seed for _, seed in pairs]}
    found = {(job_id, seed): number for job_id, seed, number in connection.execute(_SEEDS, facts).fetchall()}
    return {(number, seed): found[ids[number], seed] for number, seed in pairs}


@retried
def _store(
    connection: psycopg.Connection[Any],
    chunk: Chunk,
    placed: Sequence[tuple[Mapping[str, Any], int, int]],
    named: Sequence[tuple[Mapping[str, Any], int, int, str | None]],
    ids: Mapping[int, int],
    *,
    term: TermHeld,
    note: Note,
    now: dt.datetime,
) -> int:
    body = chunk.body
    with connection.transaction(), named_rows(connection) as cursor:
        hold_term(connection, term)
        facts = {
            "rows": [Jsonb(one["row"]) for one, _, _ in placed],
            "jobs": [job_id for _, job_id, _ in placed],
            "lanes": [lane for _, _, lane in placed],
        }
        _store_hosts(cursor, body["hosts"])
        new = cursor.execute(_DOCUMENTS, facts).fetchall()
        keys = {(str(row.hash), row.job_id) for row in new}
        cursor.execute(_NO_LONGER_FOREIGN, {"hashes": [row.hash for row in new], "jobs": [row.job_id for row in new]})
        cursor.execute(
            _FOREIGN,
            {
                "rows": [Jsonb(one) for one, _, _, _ in named],
                "jobs": [job_id for _, job_id, _, _ in named],
                "seeds": [seed for _, _, seed, _ in named],
                "targets": [target for _, _, _, target in named],
            },
        )
        for kind, statement in _OF_JOBS.items():
            rows = [
                (one["row"], ids[one["job"]])
                for one in body.get(kind, ())
                if one["job"] in ids and (kind == "edges" or (one["row"]["hash"], ids[one["job"]]) in keys)
            ]
            cursor.execute(statement, {"rows": [Jsonb(row) for row, _ in rows], "jobs": [job for _, job in rows]})
        _store_in_outputs(cursor, body, ids)
        count_moved(cursor, new, amount=1)
        chunk.forget(cursor)
        note(chunk)
    wake_lanes(connection, {row.lane_id for row in new}, now=now)
    return len(new)


def _store_hosts(cursor: psycopg.Cursor[Any], hosts: Sequence[Mapping[str, Any]]) -> None:
    rows = [Jsonb(one["row"]) for one in hosts]
    cursor.execute(_NEW_HOSTS, {"rows": rows})
    changed = cursor.execute(_HOSTS, {"rows": rows}).fetchall()
    not_before = {one["row"]["name"]: one["not_before"] for one in hosts}
    cursor.execute(
        _PACE, {"bins": [row.id for row in changed], "not_before": [not_before[row.name] for row in changed]}
    )


def _store_in_outputs(cursor: psycopg.Cursor[Any], body: Mapping[str, Any], ids: Mapping[int, int]) -> None:
    """Store the records and texts of outputs that exist here, by their names."""
    outputs = {row.name: row.id for row in cursor.execute(_OUTPUTS).fetchall()}
    tombstones.store(cursor, body.get("tombstones", ()), ids, outputs)
    cursor.execute(_ACCESS, {"rows": [Jsonb(one) for one in body["access"]]})
    for kind, statement in _OF_OUTPUTS.items():
        rows = [(one["row"], outputs[one["output"]]) for one in body[kind] if one["output"] in outputs]
        cursor.execute(statement, {"rows": [Jsonb(row) for row, _ in rows], "outputs": [number for _, number in rows]})
    refusals = [one for one in body["refusals"] if one["job"] in ids and one["output"] in outputs]
    cursor.execute(
        _REFUSALS,
        {
            "rows": [Jsonb(one["row"]) for one in refusals],
            "jobs": [ids[one["job"]] for one in refusals],
            "outputs": [outputs[one["output"]] for one in refusals],
        },
    )
