"""
A queue of any number of documents in some shape, made by a few statements. One manager and one worker move its
documents step by step, with the functions of the daemons.
"""

import datetime as dt
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from jobs.connectors.repository.base import Reference
from jobs.loops.loop import calls
from jobs.loops.manager.duty_tables import MAIN_DUTIES, OWNER_DUTIES
from jobs.models import Job
from jobs.queue.counting.counters import fold
from jobs.queue.flushing.flush import Flushed, flush
from jobs.queue.flushing.outcomes import JobFacts, Result
from jobs.queue.offering.cursors import LaneCursors
from jobs.queue.offering.hold import GroupHeld, Stuffed
from jobs.queue.offering.stuff import stuff
from jobs.queue.pace.close import ClosedTurn, close_turns
from jobs.queue.rounds import Rounds
from jobs.queue.sql.low_water import raise_marks
from jobs.queue.take import Taken, take
from tests.support.cluster import elect_main, register_node
from tests.support.factories import facts_of, make_group, make_job, make_outcome, make_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """
    The distribution of a queue's documents. The first of the bins may have a larger share of them, the others have
    equal parts. Shares of them can be held back: bins are blocked for an hour, documents are due in a day, jobs are
    paused.
    """

    bins: int = 1_000
    jobs: int = 10
    in_one_bin: float = 0.0
    throttled: float = 0.0
    waiting: float = 0.0
    paused: float = 0.0


EVEN: Final = Shape()

_BINS: Final = """
WITH made AS (
    INSERT INTO jobs_bin (namespace, name, "interval", is_known, usual_requests, usual_gap)
    SELECT 'web', 'h' || n || '.example', 0, true, 2, 1 FROM generate_series(1, %(bins)s) AS n
    RETURNING id
)
INSERT INTO jobs_binstate (bin_id, last_start_at)
SELECT id, CASE WHEN row_number() OVER (ORDER BY id) > %(open)s THEN clock_timestamp() + interval '1 hour' END FROM made
"""
# One lane for each bin. The bins are assigned to one seed after the other, again and again.
_LANES: Final = """
WITH made AS (
    INSERT INTO jobs_lane (seed_id, bin_id)
    SELECT (%(seeds)s::bigint[])[1 + row_number() OVER (ORDER BY id) %% %(count)s], id FROM jobs_bin ORDER BY id
    RETURNING id, seed_id, bin_id
)
INSERT INTO jobs_lanestate (lane_id, seed_id, bin_id, ready_at)
SELECT made.id, made.seed_id, made.bin_id, coalesce(last_start_at, clock_timestamp())
  FROM made JOIN jobs_binstate AS state ON state.bin_id = made.bin_id
"""
_LIMITS: Final = """
INSERT INTO jobs_binlimit (bin_id, job_id, policy_id)
SELECT lane.bin_id, seed.job_id, seed.policy_id FROM jobs_lane AS lane JOIN jobs_seed AS seed ON seed.id = lane.seed_id
"""
_DOCUMENTS: Final = """
INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, seq, check_time,
                            action, depth, redirects)
SELECT md5(n::text)::uuid, seed.job_id, lane.id, 'http://' || bin.name || '/path/to/page-' || n || '.html', 0, false, false, 1,
       CASE WHEN (n / %(bins)s) %% 10 >= 10 * %(waiting)s THEN (1::bigint << 56) + n END,
       CASE WHEN (n / %(bins)s) %% 10 < 10 * %(waiting)s THEN clock_timestamp() + interval '1 day' + n * interval '1 ms' END, 0, 1, 0
  FROM generate_series(1, %(documents)s) AS n
  JOIN (SELECT *, row_number() OVER (ORDER BY id) AS place FROM jobs_lane) AS lane
    ON lane.place = CASE WHEN (n / %(bins)s) %% 10 < 10 * %(in_one)s THEN 1 ELSE 1 + n %% %(bins)s END
  JOIN jobs_seed AS seed ON seed.id = lane.seed_id JOIN jobs_bin AS bin ON bin.id = lane.bin_id
"""
_COUNTERS: Final = """
INSERT INTO jobs_counter (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
SELECT job_id, lane_id, run_no, 'stage', stage, 0, '', count(*) FROM jobs_queueitem GROUP BY job_id, lane_id, run_no, stage;
INSERT INTO jobs_jobcounter (job_id, run_no, measure, stage, outcome, code, amount)
SELECT job_id, run_no, measure, stage, outcome, code, sum(amount) FROM jobs_counter GROUP BY 1, 2, 3, 4, 5, 6
"""
_KEY: Final = """
SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'jobs_queueitem'::regclass AND contype = 'p'
"""
_INDEXES: Final = """
SELECT class.relname, pg_get_indexdef(index.indexrelid)
  FROM pg_index AS index JOIN pg_class AS class ON class.oid = index.indexrelid
 WHERE index.indrelid = 'jobs_queueitem'::regclass AND NOT index.indisunique
"""
_NUMBER: Final = "SELECT setval('jobs_document_number', %(documents)s + 1)"
_ASK: Final = f"SELECT {calls(OWNER_DUTIES)}, {calls(MAIN_DUTIES)}"


class FilledQueue:
    """The queue of some jobs of one policy, in a group of one manager. No other node works."""

    def __init__(self, connection: psycopg.Connection[Any], *, documents: int, shape: Shape = EVEN) -> None:
        self.connection, self.documents, self.shape = connection, documents, shape
        self.manager = register_node(connection, "manager")
        self.worker = register_node(connection, "worker", capacity=256)
        self._term = elect_main(connection, self.manager)
        self._fresh = itertools.count(1)
        self._known = itertools.cycle(range(1, documents + 1, max(1, documents // 9_973)))
        self.cursors = LaneCursors()
        self._make()

    def now(self) -> dt.datetime:
        row = self.connection.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        moment: dt.datetime = row[0]
        return moment

    def stuff(self, room: int) -> Stuffed:
        return stuff(
            self.connection,
            manager=self.manager.id,
            group=self.group,
            room=room,
            workers=1,
            cursors=self.cursors,
            now=self.now(),
        )

    def take(self, room: int) -> Taken:
        return take(self.connection, worker=self.worker.id, room=room, idle=True, now=self.now())

    def results_of(self, taken: Taken, *, new: int, known: int) -> list[Result]:
        """Return results in which each document was fetched, and links to `new` new and `known` known documents."""
        return [
            Result(
                claimed,
                self.facts[claimed.job_id],
                make_outcome(claimed, names=[*self._new(new), *self._old(known)]),
                {(claimed.seed_id, "here"): claimed.lane_id},
            )
            for turn in taken.turns
            for claimed in turn.documents
        ]

    def flush(self, results: Sequence[Result]) -> Flushed:
        return flush(self.connection, worker=self.worker.id, results=results, now=self.now())

    def close(self, taken: Taken, flushed: Flushed) -> None:
        close_turns(
            self.connection,
            # The turns close without the time of a request, so their bins are free immediately.
            turns=[ClosedTurn(turn.id, None, turn.follows) for turn in taken.turns],
            batches=sorted({turn.batch_id for turn in taken.turns}),
            filled=flushed.lanes,
            now=self.now(),
        )

    def walk(self) -> int:
        """Take one step of a round over sleeping lanes."""
        return Rounds().go_on(self.connection, groups=[self.group.id], now=self.now())

    def ask(self) -> None:
        """Ask for the due duties, as a manager does in each pass."""
        facts = {"me": self.manager.id, "scope": self.manager.scope, "now": self.now()}
        self.connection.execute(_ASK, facts)

    def fold(self) -> int:
        return fold(self.connection, term=self._term, now=self.now())

    def raise_marks(self) -> None:
        raise_marks(self.connection)

    def cycle(self, documents: int) -> None:
        """Move this many documents through the whole queue. Each links to one new document."""
        done = 0
        while done < documents:
            self.stuff(2_000)
            taken = self.take(2_000)
            if not taken.documents:
                raise RuntimeError(f"nothing was handed out any more after {done} documents")
            self.close(taken, self.flush(self.results_of(taken, new=1, known=0)))
            while self.fold():
                pass
            self.raise_marks()
            done += taken.documents

    def _new(self, count: int) -> Iterator[Reference]:
        return (_reference(f"new {next(self._fresh)}") for _ in range(count))

    def _old(self, count: int) -> Iterator[Reference]:
        return (_reference(str(next(self._known))) for _ in range(count))

    def _make(self) -> None:
        policy = make_policy(open_requests=2, min_gap=0.5)
        jobs = [make_job(policy=policy) for _ in range(self.shape.jobs)]
        paused = round(self.shape.paused * self.shape.jobs)
        Job.objects.filter(pk__in=[job.pk for job in jobs]).update(phase="active", run_no=1, started_at=self.now())
        Job.objects.filter(pk__in=[job.pk for job in jobs[self.shape.jobs - paused :]]).update(pause="paused")
        seeds = [job.seeds.get() for job in jobs]
        self.seeds = [seed.pk for seed in seeds]
        for seed in seeds:
            self.group: GroupHeld = make_group(seed, owner=self.manager)
        self.facts: dict[int, JobFacts] = {job.pk: facts_of(Job.objects.get(pk=job.pk)) for job in jobs}
        shape = self.shape
        facts = {
            "bins": shape.bins,
            "open": round(shape.bins * (1 - shape.throttled)),
            "seeds": [seed.pk for seed in seeds],
            "count": shape.jobs,
            "documents": self.documents,
            "waiting": shape.waiting,
            "in_one": shape.in_one_bin,
        }
        for statement in (_BINS, _LANES, _LIMITS):
            self.connection.execute(statement, facts)
        self.connection.execute("ANALYZE jobs_lane, jobs_lanestate, jobs_bin, jobs_binstate, jobs_seed")
        # Indexes are created after the rows, which is faster than row by row.
        ((key, definition),) = self.connection.execute(_KEY).fetchall()
        indexes = self.connection.execute(_INDEXES).fetchall()
        self.connection.execute(f'ALTER TABLE jobs_queueitem DROP CONSTRAINT "{key}"')
        for name, _ in indexes:
            self.connection.execute(f'DROP INDEX "{name}"')
        self.connection.execute(_DOCUMENTS, facts)
        self.connection.execute(f'ALTER TABLE jobs_queueitem ADD CONSTRAINT "{key}" {_as_if_grown(definition)}')
        for _, index in indexes:
            self.connection.execute(_as_if_grown(index))
        self.connection.execute(_COUNTERS)
        self.connection.execute(_NUMBER, facts)
        self.connection.execute("VACUUM ANALYZE")


def _as_if_grown(definition: str) -> str:
    """
    Return an index definition with the fillfactor of an index that grew row by row in any order. Keep a given
    fillfactor.
    """
    if "fillfactor" in definition:
        return definition
    head, where, condition = definition.partition(" WHERE ")
    return f"{head} WITH (fillfactor = 70){where}{condition}"


def _reference(name: str) -> Reference:
    """Return the reference of this name. A number is one of the documents that filled the queue."""
    key = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
    return Reference(key, f"http://here.example/path/to/page-{name}.html", "here")
