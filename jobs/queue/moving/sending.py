"""
Sending: documents of hosts that this partition no longer has become chunks for the partitions that have them.

One transaction writes a chunk, deletes its documents with their links and records, and subtracts them from the counts.
Nothing hands out documents meanwhile: all jobs of partitions are held. The partition keeps a `ForeignLink` to each
document, so that its own pages still refer to the document after an answer without a body. Tombstones follow the last
document.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, LiteralString

import psycopg

from jobs.queue.moving import tombstones
from jobs.queue.moving.chunks import count_moved, key_of
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows
from nodes.membership.fences import TermHeld, hold_term

# Number of documents of a chunk, and the size of their texts (bytes) above which a chunk has fewer documents.
_AT_ONCE: Final = 200
_LARGEST: Final = 8 << 20
# Number of hosts that one statement reads.
_HOSTS: Final = 200
# Largest number of chunks in one call, because other duties have to run, too.
_CHUNKS: Final = 10

_BINS: Final[LiteralString] = """
SELECT id, name FROM jobs_bin
 WHERE id > %(after)s AND namespace NOT IN ('address', 'policy') ORDER BY id LIMIT %(most)s
"""
# Any documents of the lane, so that a large lane is not sorted for each chunk. Locks: QueueItem by hash.
_CHOOSE: Final[LiteralString] = """
WITH chosen AS MATERIALIZED (
    SELECT item.hash, item.job_id
      FROM jobs_lane AS lane JOIN jobs_seed AS seed ON seed.id = lane.seed_id
      JOIN jobs_partitionedjob AS known ON known.job_id = seed.job_id
     CROSS JOIN LATERAL (SELECT hash, job_id FROM jobs_queueitem
                          WHERE lane_id = lane.id AND batch_id IS NULL LIMIT %(most)s) AS item
     WHERE lane.bin_id = ANY(%(bins)s)
     LIMIT %(most)s
)
SELECT item.hash, item.job_id,
       (SELECT coalesce(sum(pg_column_size(found.text)), 0) FROM jobs_searchdocument AS found
         WHERE found.output_id = ANY(%(outputs)s) AND found.hash = item.hash) AS size
  FROM jobs_queueitem AS item JOIN chosen ON chosen.hash = item.hash AND chosen.job_id = item.job_id
 WHERE item.batch_id IS NULL
 ORDER BY item.hash, item.job_id
   FOR NO KEY UPDATE OF item
"""
_GONE: Final[LiteralString] = """
gone AS MATERIALIZED (
    SELECT hash, job_id FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS given(hash, job_id)
), records AS MATERIALIZED (
    SELECT record.output_id, record.hash FROM jobs_indexeddocument AS record
     WHERE record.output_id = ANY(%(outputs)s) AND record.hash IN (SELECT hash FROM gone)
     UNION
    SELECT record.output_id, record.hash FROM jobs_indexeddocument AS record
     WHERE record.output_id = ANY(%(outputs)s) AND record.parent IN (SELECT hash FROM gone)
)
"""
# Largest size of the kept versions in one chunk (bytes). The newest version of each document moves in any case.
_MOST_OF_VERSIONS: Final = 32 << 20
# Ids differ between partitions. So a chunk names a job by its number, a seed by the hash of its first address, and an
# output by its name. Rows are sent whole, so a column that a later release adds is sent, too.
_WRITE: Final[LiteralString] = f"""
WITH {_GONE}, texts AS MATERIALIZED (
    SELECT found.* FROM records JOIN jobs_searchdocument AS found USING (output_id, hash)
), links AS MATERIALIZED (
    SELECT link.* FROM gone JOIN jobs_outlinks AS link USING (hash, job_id)
), versions AS MATERIALIZED (
    -- The newest versions up to a size, because all of them could be too large for one value.
    SELECT * FROM (
        SELECT aged.*, sum(octet_length(text) + octet_length(headers)) OVER (ORDER BY age, hash, job_id) AS size
          FROM (SELECT version.*, row_number() OVER (PARTITION BY hash, job_id ORDER BY number DESC) AS age
                  FROM gone JOIN jobs_documentversion AS version USING (hash, job_id)) AS aged) AS measured
     WHERE age = 1 OR size <= {_MOST_OF_VERSIONS}
), known AS MATERIALIZED (
    SELECT job_id, number FROM jobs_partitionedjob
)
INSERT INTO jobs_partitionfact (source, target, key, body)
SELECT %(here)s, %(target)s, %(key)s, jsonb_build_object(
    'documents', (
        SELECT coalesce(jsonb_agg(jsonb_build_object(
                   'job', known.number, 'seed', md5(seed.urls[1]), 'bin', bin.name, 'row', to_jsonb(item))), '[]')
          FROM gone JOIN jobs_queueitem AS item USING (hash, job_id) JOIN known USING (job_id)
          JOIN jobs_lane AS lane ON lane.id = item.lane_id
          JOIN jobs_seed AS seed ON seed.id = lane.seed_id JOIN jobs_bin AS bin ON bin.id = lane.bin_id),
    'links', (
        SELECT coalesce(jsonb_agg(jsonb_build_object('job', known.number, 'row', to_jsonb(links))), '[]')
          FROM links JOIN known USING (job_id)),
    'versions', (
        SELECT coalesce(jsonb_agg(jsonb_build_object('job', known.number, 'row', to_jsonb(versions))), '[]')
          FROM versions JOIN known USING (job_id)),
    -- The targets of their links, so that their partition can name them again.
    'targets', (
        SELECT coalesce(jsonb_agg(to_jsonb(found) || jsonb_build_object('job', known.number)), '[]')
          FROM (SELECT DISTINCT target.hash, links.job_id FROM links CROSS JOIN LATERAL unnest(links.targets) AS target(hash)
                 WHERE target.hash NOT IN (SELECT hash FROM gone)) AS named
          JOIN known USING (job_id)
         CROSS JOIN LATERAL (
               SELECT item.hash, item.identifier, bin.name AS bin, md5(seed.urls[1]) AS seed, item.run_no, item.depth,
                      item.redirects, coalesce(item.found_on, item.hash) AS found_on
                 FROM jobs_queueitem AS item JOIN jobs_lane AS lane ON lane.id = item.lane_id
                 JOIN jobs_seed AS seed ON seed.id = lane.seed_id JOIN jobs_bin AS bin ON bin.id = lane.bin_id
                WHERE item.hash = named.hash AND item.job_id = named.job_id
                UNION ALL
               SELECT link.hash, link.identifier, link.bin, md5(seed.urls[1]), link.run_no, link.depth,
                      link.redirects, link.found_on
                 FROM jobs_foreignlink AS link JOIN jobs_seed AS seed ON seed.id = link.seed_id
                WHERE link.hash = named.hash AND link.job_id = named.job_id
                LIMIT 1) AS found),
    -- A chain of redirects is followed in both directions.
    'edges', (
        SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object('job', known.number, 'row', to_jsonb(edge))), '[]')
          FROM gone JOIN known USING (job_id)
         CROSS JOIN LATERAL (SELECT * FROM jobs_redirectedge WHERE hash = gone.hash AND job_id = gone.job_id
                              UNION
                             SELECT * FROM jobs_redirectedge WHERE job_id = gone.job_id AND target = gone.hash) AS edge),
    'refusals', (
        SELECT coalesce(jsonb_agg(jsonb_build_object('job', known.number, 'output', output.name, 'row', to_jsonb(refusal))), '[]')
          FROM gone JOIN known USING (job_id)
          JOIN jobs_pipelinerefusal AS refusal USING (job_id, hash)
          JOIN jobs_outputconnection AS output ON output.id = refusal.output_id),
    'records', (
        SELECT coalesce(jsonb_agg(jsonb_build_object('output', output.name, 'row', to_jsonb(record))), '[]')
          FROM records JOIN jobs_indexeddocument AS record USING (output_id, hash)
          JOIN jobs_outputconnection AS output ON output.id = record.output_id),
    'texts', (
        SELECT coalesce(jsonb_agg(jsonb_build_object('output', output.name, 'row', to_jsonb(texts) - 'vector')), '[]')
          FROM texts JOIN jobs_outputconnection AS output ON output.id = texts.output_id),
    'access', (
        SELECT coalesce(jsonb_agg(to_jsonb(access)), '[]') FROM jobs_searchaccess AS access
         WHERE access.digest IN (SELECT texts.access FROM texts)),
    'hosts', (
        SELECT coalesce(jsonb_agg(jsonb_build_object('row', to_jsonb(bin), 'not_before', state.not_before)), '[]')
          FROM jobs_bin AS bin
         CROSS JOIN LATERAL (SELECT not_before FROM jobs_binstate WHERE bin_id = bin.id ORDER BY version DESC LIMIT 1) AS state
         WHERE bin.id = ANY(%(bins)s)
           AND (bin.stopped_at IS NOT NULL
                OR bin.id IN (SELECT lane.bin_id FROM gone JOIN jobs_queueitem AS item USING (hash, job_id)
                                JOIN jobs_lane AS lane ON lane.id = item.lane_id))))
"""
_ARE_STOPPED: Final[LiteralString] = (
    "SELECT EXISTS (SELECT FROM jobs_bin WHERE id = ANY(%(bins)s) AND stopped_at IS NOT NULL)"
)
# A stop belongs to the partition that has the host: another partition must not stop it again with a later move.
# Locks: the rows of the documents are held; Bin, ForeignLink by hash.
_LEAVE: Final[tuple[LiteralString, ...]] = (
    """
INSERT INTO jobs_foreignlink AS link
       (hash, job_id, seed_id, target, identifier, bin, run_no, depth, redirects, found_on, edges)
SELECT item.hash, item.job_id, lane.seed_id, %(target)s, item.identifier, bin.name, item.run_no, item.depth, item.redirects,
       coalesce(item.found_on, item.hash), '{}'
  FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS gone(hash, job_id)
  JOIN jobs_queueitem AS item ON item.hash = gone.hash AND item.job_id = gone.job_id
  JOIN jobs_lane AS lane ON lane.id = item.lane_id JOIN jobs_bin AS bin ON bin.id = lane.bin_id
 ORDER BY item.hash, item.job_id
ON CONFLICT (hash, job_id) DO UPDATE SET target = excluded.target, run_no = greatest(link.run_no, excluded.run_no)
""",
    """
UPDATE jobs_bin SET stopped_at = NULL, stopped_by = '', stopped_why = '', stops_every_port = false
 WHERE id = ANY(%(bins)s) AND stopped_at IS NOT NULL
""",
    f"""
WITH {_GONE}
DELETE FROM jobs_searchdocument AS found USING records
 WHERE found.output_id = records.output_id AND found.hash = records.hash
""",
    f"""
WITH {_GONE}
DELETE FROM jobs_indexeddocument AS record USING records
 WHERE record.output_id = records.output_id AND record.hash = records.hash
""",
    f"""
WITH {_GONE}
DELETE FROM jobs_pipelinerefusal AS refusal USING gone
 WHERE refusal.hash = gone.hash AND refusal.job_id = gone.job_id
""",
    f"""
WITH {_GONE}
DELETE FROM jobs_outlinks AS link USING gone WHERE link.hash = gone.hash AND link.job_id = gone.job_id
""",
    f"""
WITH {_GONE}
DELETE FROM jobs_documentversion AS version USING gone WHERE version.hash = gone.hash AND version.job_id = gone.job_id
""",
)
_DELETE: Final[LiteralString] = f"""
WITH {_GONE}
DELETE FROM jobs_queueitem AS item USING gone WHERE item.hash = gone.hash AND item.job_id = gone.job_id
RETURNING item.job_id, item.lane_id, item.run_no, item.stage, item.outcome, item.result_code
"""
_OUTPUTS: Final[LiteralString] = "SELECT coalesce(array_agg(id), '{}') FROM jobs_outputconnection"


@dataclass(frozen=True, slots=True)
class Sent:
    """
    The progress of a partition: no host up to the bin `after` still has documents of another partition.

    `amounts` counts the chunks of this series by target. After the last host, `stone` is the last tombstone that was
    examined, as job, run and hash. The progress `is_complete` after the last tombstone.
    """

    series: str
    after: int = 0
    amounts: Mapping[str, int] = field(default_factory=dict)
    is_complete: bool = False
    stone: tombstones.Key | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "series": self.series,
            "after": self.after,
            "amounts": dict(self.amounts),
            "is_complete": self.is_complete,
            "stone": self.stone,
        }

    def next_key(self, target: str) -> str:
        """Return the key of the next chunk for a partition."""
        return key_of(self.series, self.amounts.get(target, 0))

    def with_chunk(self, target: str) -> "Sent":
        """Return the progress after one more chunk for a partition."""
        return replace(self, amounts={**self.amounts, target: self.amounts.get(target, 0) + 1})


# Stores the progress of the partition, in the transaction of a chunk.
Note = Callable[[Sent], object]


def send_documents(
    connection: psycopg.Connection[Any],
    sent: Sent,
    *,
    term: TermHeld,
    here: str,
    foreign: Callable[[str], str | None],
    note: Note,
) -> Sent:
    """
    Send some documents of hosts that another partition has; return the progress after these documents.

    `foreign` names the other partition of a host.

    Raises:
        FenceRefused: the term is no longer the main manager's.
    """
    left = _CHUNKS
    while left > 0 and sent.stone is None and not sent.is_complete:
        bins = connection.execute(_BINS, {"after": sent.after, "most": _HOSTS}).fetchall()
        for target, numbers in _by_target(bins, foreign).items():
            is_empty = False
            while not is_empty:
                if left == 0:
                    return sent
                sent, is_empty = _send_chunk(
                    connection, sent, term=term, here=here, target=target, bins=numbers, note=note
                )
                left -= 1
        sent = replace(sent, after=bins[-1][0]) if bins else replace(sent, stone=tombstones.FIRST)
        with connection.transaction():
            hold_term(connection, term)
            note(sent)
    while left > 0 and not sent.is_complete:
        before = sent.amounts
        sent = _send_tombstones(connection, sent, term=term, here=here, foreign=foreign, note=note)
        left -= sent.amounts != before
    return sent


@retried
def _send_tombstones(
    connection: psycopg.Connection[Any],
    sent: Sent,
    *,
    term: TermHeld,
    here: str,
    foreign: Callable[[str], str | None],
    note: Note,
) -> Sent:
    """Send the next tombstones of hosts that another partition has; return the progress after these tombstones."""
    with connection.transaction(), named_rows(connection) as cursor:
        hold_term(connection, term)
        found = tombstones.find_moved(cursor, sent.stone or tombstones.FIRST, foreign)
        for target, keys in found.by_target.items():
            tombstones.send(cursor, keys, here=here, target=target, key=sent.next_key(target))
            sent = sent.with_chunk(target)
        sent = replace(sent, stone=found.at or sent.stone, is_complete=found.at is None)
        note(sent)
    return sent


def _by_target(bins: Sequence[tuple[int, str]], foreign: Callable[[str], str | None]) -> dict[str, list[int]]:
    targets: dict[str, list[int]] = {}
    for number, name in bins:
        if (target := foreign(name)) is not None:
            targets.setdefault(target, []).append(number)
    return targets


@retried
def _send_chunk(
    connection: psycopg.Connection[Any],
    sent: Sent,
    *,
    term: TermHeld,
    here: str,
    target: str,
    bins: Sequence[int],
    note: Note,
) -> tuple[Sent, bool]:
    """
    Send the next documents of these hosts as one chunk. Return the progress, and True if the hosts have no more
    documents.
    """
    with connection.transaction(), named_rows(connection) as cursor:
        hold_term(connection, term)
        (outputs,) = cursor.execute(_OUTPUTS).fetchone() or ([],)
        about = {"bins": list(bins), "outputs": outputs, "here": here, "target": target}
        found = cursor.execute(_CHOOSE, {**about, "most": _AT_ONCE}).fetchall()
        chosen = _up_to(found, _LARGEST)
        (are_stopped,) = cursor.execute(_ARE_STOPPED, about).fetchone() or (False,)
        if not chosen and not are_stopped:
            return sent, True
        about |= {"hashes": [row.hash for row in chosen], "jobs": [row.job_id for row in chosen]}
        cursor.execute(_WRITE, {**about, "key": sent.next_key(target)})
        for statement in _LEAVE:
            cursor.execute(statement, about)
        count_moved(cursor, cursor.execute(_DELETE, about).fetchall(), amount=-1)
        sent = sent.with_chunk(target)
        note(sent)
    return sent, len(found) < _AT_ONCE and len(chosen) == len(found)


def _up_to(found: Sequence[Any], most: int) -> Sequence[Any]:
    """Return the first documents whose texts together have at most this size, but at least one document."""
    size = 0
    for place, row in enumerate(found):
        size += row.size
        if size > most and place:
            return found[:place]
    return found
