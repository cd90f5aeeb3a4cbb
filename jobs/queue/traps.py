"""
The counts of suspects: a worker counts its first readings of documents by groups of addresses, and writes suspects.

A group is written once it is a suspect. Counts are written together, after a flush and under none of its locks.
If the worker dies before, these counts are missing. A suspect that is new makes all workers read the job again, so that
they hold back its documents.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import Ending
from jobs.connectors.repository.web.urls import bin_of
from jobs.queue.flushing.outcomes import JobFacts, Result
from jobs.queue.sql.retrying import retried
from jobs.traps.quarantine import TRAP
from jobs.traps.radar import GroupCount, Radar
from jobs.traps.templates import grouped

# Largest numbers of suspects of one host, and of one job.
MOST_OF_HOST: Final = 20
MOST_OF_JOB: Final = 1_000
# Seconds between two writes of a busy worker.
_TOGETHER: Final = 5.0

# A job that is being deleted is left out.
# Locks: Job KEY SHARE, skipping locked rows, then TrapSuspect.
_ADD: Final[LiteralString] = f"""
WITH there AS MATERIALIZED (
    SELECT job.id FROM jobs_job AS job WHERE job.id = %(job)s FOR KEY SHARE OF job SKIP LOCKED
), known AS (
    SELECT count(*) AS of_job, count(*) FILTER (WHERE host = %(host)s) AS of_host,
           coalesce(bool_or(host = %(host)s AND template = %(template)s), false) AS is_there
      FROM jobs_trapsuspect WHERE job_id = %(job)s
)
INSERT INTO jobs_trapsuspect AS suspect (job_id, host, template, rule, parameter, run_no, fetched, new, bytes, held,
                                         samples, new_samples, proven, suspected_at)
SELECT there.id, %(host)s, %(template)s, %(rule)s, %(parameter)s, %(run)s, %(fetched)s, %(new)s, %(bytes)s, 0,
       %(samples)s::text[], %(new_samples)s::text[], %(proven)s::text[], clock_timestamp()
  FROM there, known WHERE known.is_there OR (known.of_job < {MOST_OF_JOB} AND known.of_host < {MOST_OF_HOST})
ON CONFLICT (job_id, host, template) DO UPDATE
   SET fetched = suspect.fetched + excluded.fetched, new = suspect.new + excluded.new,
       bytes = suspect.bytes + excluded.bytes, run_no = excluded.run_no,
       samples = CASE excluded.samples WHEN '{{}}' THEN suspect.samples ELSE excluded.samples END,
       new_samples = CASE excluded.new_samples WHEN '{{}}' THEN suspect.new_samples ELSE excluded.new_samples END,
       proven = ARRAY(SELECT DISTINCT unnest(suspect.proven || excluded.proven) ORDER BY 1 LIMIT 100)
RETURNING xmax = 0 AS is_new
"""
# Locks: TrapSuspect.
_COUNT_HELD: Final[LiteralString] = """
UPDATE jobs_trapsuspect SET held = held + %(held)s, run_no = %(run)s
 WHERE job_id = %(job)s AND host = %(host)s AND template = %(template)s
"""

# A job, a host and a template.
_Place = tuple[int, str, str]


@dataclass(slots=True)
class _Seen:
    """A suspect with counts that are not written yet."""

    run_no: int
    count: GroupCount
    proven: list[str]


@dataclass(slots=True)
class TrapCounts:
    """The counts that one worker collects until it writes them."""

    _radar: Radar = field(default_factory=Radar)
    _suspects: dict[_Place, _Seen] = field(default_factory=dict)
    _held: dict[_Place, tuple[int, int]] = field(default_factory=dict)
    # Groups of addresses (`Place`) with a row that this worker has written.
    _known: set[_Place] = field(default_factory=set)
    _written_at: float = 0.0
    _is_urgent: bool = False

    def collect(self, results: Iterable[Result]) -> None:
        """Count the first readings, and the documents that were held back, of jobs that watch for traps."""
        for result in results:
            if result.job.watches_traps:
                self._collect(result.job, result)

    def _collect(self, job: JobFacts, result: Result) -> None:
        outcome, url = result.outcome, result.claimed.document.identifier
        if outcome.code == TRAP:
            host = bin_of(url)
            template = job.quarantine.group_of(url, host=host) if job.quarantine is not None else None
            if template is not None:
                place = job.id, host, template
                self._held[place] = job.run_no, self._held.get(place, (0, 0))[1] + 1
            return
        is_first = outcome.ending == Ending.INDEXED and not result.claimed.document.version
        # A page without a text is no evidence about new content.
        if not is_first or outcome.content is None or not outcome.content.text.strip():
            return
        host, address = bin_of(url), grouped(url)
        radar = self._radar.host(job.id, job.run_no, host)
        found = radar.add(url, address, outcome.content.text, read=outcome.bytes_read)
        if found is not None:
            place = job.id, host, found.group.template
            self._is_urgent = self._is_urgent or place not in self._known
            self._suspects[place] = _Seen(job.run_no, found, radar.proven())

    def write(self, connection: psycopg.Connection[Any], *, at_once: bool) -> set[int]:
        """
        Write the counts if a suspect is new, if the last write is some time ago, or in any case if `at_once`.

        Return the jobs with a new suspect. The caller notifies the workers of these.
        """
        is_due = at_once or self._is_urgent or time.monotonic() - self._written_at >= _TOGETHER
        if not is_due or not (self._suspects or self._held):
            return set()
        self._written_at, self._is_urgent = time.monotonic(), False
        suspects, self._suspects = self._suspects, {}
        held, self._held = self._held, {}
        rows = [_row(place, seen) for place, seen in sorted(suspects.items(), key=lambda one: one[0])]
        moved = _write(connection, rows, sorted(held.items()))
        self._known = set(list(self._known)[-10 * MOST_OF_JOB :]) | suspects.keys()
        return moved


def _row(place: _Place, seen: _Seen) -> dict[str, Any]:
    fetched, new, read = seen.count.take_counts()
    return {
        "job": place[0],
        "host": place[1],
        "template": place[2],
        "rule": seen.count.group.rule,
        "parameter": seen.count.group.parameter,
        "run": seen.run_no,
        "fetched": fetched,
        "new": new,
        "bytes": read,
        "samples": seen.count.samples,
        "new_samples": seen.count.new_samples,
        "proven": seen.proven,
    }


@retried
def _write(
    connection: psycopg.Connection[Any],
    rows: Iterable[dict[str, Any]],
    held: Iterable[tuple[_Place, tuple[int, int]]],
) -> set[int]:
    """Write counts in one transaction; return the jobs with a new suspect."""
    moved: set[int] = set()
    with connection.transaction():
        for row in rows:
            answer = connection.execute(_ADD, row).fetchone()
            if answer is not None and answer[0]:
                moved.add(row["job"])
        for (job_id, host, template), (run_no, documents) in held:
            facts = {"job": job_id, "host": host, "template": template, "run": run_no, "held": documents}
            connection.execute(_COUNT_HELD, facts)
    return moved
