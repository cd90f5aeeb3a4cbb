"""Proves that the counters agree with the rows after any steps of managers and workers."""

import copy
import random
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from jobs.connectors.repository.base import Ending
from jobs.connectors.repository.web.kind import WEB
from jobs.lifecycle.document import Stage
from jobs.loops.worker.outputs import JobOutputs
from jobs.models import Bin, Job, LaneState
from jobs.queue.counting.counters import RunCounts, fold, forget, read_run
from jobs.queue.flushing.flush import flush
from jobs.queue.offering.stuff import stuff
from jobs.queue.offering.stuff_removals import stuff_removals
from jobs.queue.pace.close import ClosedTurn, Pace, close_turns
from jobs.queue.release import give_back, release_of_lost_workers, withdraw
from jobs.queue.removing.drop import drop
from jobs.queue.seeds import discover_seeds
from jobs.queue.take import take
from nodes.membership import leadership
from tests.support.cluster import NOON, elect_main, fall_silent, register_node, seconds
from tests.support.factories import (
    facts_of,
    make_documents,
    make_lane,
    make_policy,
    make_reference,
    make_result,
    make_running_job,
)

HOSTS = [f"h{number}.example" for number in range(3)]
NAMES = [f"page {number}" for number in range(60)]

# Endings of documents to draw from. Frequent endings occur several times.
ENDINGS = [
    *6 * [{"ending": Ending.INDEXED}],
    *2 * [{"ending": Ending.UNCHANGED, "code": "304", "references": None}],
    {"ending": Ending.FAILED, "code": "404", "references": [], "removes": True},
    {"ending": Ending.FAILED, "code": "500", "references": None},
    {"ending": Ending.EXCLUDED, "code": "REDIRECT", "removes": True},
    {"ending": Ending.EXCLUDED, "code": "ROBOTS", "references": None, "requested": False},
    *2 * [{"ending": Ending.RETRY, "code": "503", "references": None, "retry_after": 5.0}],
]

# Query that counts the documents in the table. The code of a document counts only after its end.
IN_THE_TABLE = """
SELECT job_id, lane_id, run_no, stage::int, CASE WHEN stage = 2 THEN outcome ELSE 0 END::int AS outcome,
       CASE WHEN stage = 2 THEN result_code ELSE '' END AS code, count(*) AS amount
  FROM jobs_queueitem GROUP BY 1, 2, 3, 4, 5, 6
"""
COUNTED = """
SELECT job_id, lane_id, run_no, stage::int, outcome::int, code, sum(amount)::bigint AS amount
  FROM (SELECT job_id, lane_id, run_no, stage, outcome, code, measure, amount FROM jobs_counter
         UNION ALL SELECT job_id, lane_id, run_no, stage, outcome, code, measure, amount FROM jobs_counterdelta) AS both_
 WHERE measure = 'stage' GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(amount) <> 0
"""
# Queries for bins with wrong counts of open turns or requests, and for jobs whose budget differs from the admitted
# documents.
_BINS_ASTRAY = """
SELECT bin.bin_id, bin.open_turns, count(turn.id) AS turns, bin.open_requests, coalesce(sum(turn.requests), 0) AS requests
  FROM jobs_binstate AS bin LEFT JOIN jobs_turn AS turn ON turn.bin_id = bin.bin_id AND turn.closed_at IS NULL
 GROUP BY bin.bin_id, bin.version HAVING bin.open_turns <> count(turn.id) OR bin.open_requests <> coalesce(sum(turn.requests), 0)
"""
_BUDGETS_ASTRAY = """
SELECT budget.admitted, count(*) FILTER (WHERE item.admitted_run = job.run_no) AS admitted_documents
  FROM jobs_budget AS budget JOIN jobs_job AS job ON job.id = budget.job_id
  LEFT JOIN jobs_queueitem AS item ON item.job_id = job.id
 GROUP BY budget.job_id, budget.admitted
HAVING budget.admitted <> count(*) FILTER (WHERE item.admitted_run = job.run_no)
"""

# Query for jobs whose counts differ from the sums of their lanes.
_SUMS_ASTRAY = """
SELECT job_id, run_no, measure, stage, outcome, code, sum(amount)
  FROM (SELECT job_id, run_no, measure, stage, outcome, code, amount FROM jobs_jobcounter
         UNION ALL SELECT job_id, run_no, measure, stage, outcome, code, -amount FROM jobs_counter) AS both_
 GROUP BY 1, 2, 3, 4, 5, 6 HAVING sum(amount) <> 0
"""

_WAKE_ALL = """
WITH locked AS MATERIALIZED (SELECT lane_id FROM jobs_lanestate ORDER BY lane_id FOR NO KEY UPDATE)
UPDATE jobs_lanestate AS lane SET ready_at = %s, head = 0 FROM locked WHERE lane.lane_id = locked.lane_id
"""


class Walk:
    """Random steps of managers, workers and a main manager with the documents of one job."""

    def __init__(self, connection, *, seed, max_documents):
        self.connection, self.draw, self.now = connection, random.Random(seed), NOON
        self.main = register_node(connection, "manager")
        self.term = elect_main(connection, self.main)
        policy = make_policy(open_requests=4)
        specification = {"max_depth": 6, "allow_private_networks": True}
        self.running = make_running_job(
            self.main, policy=policy, max_documents=max_documents, specification=specification
        )
        self.lanes = [make_lane(self.running.seed, host) for host in HOSTS]
        make_documents(self.lanes[0], NAMES[:5])
        # `make_documents` writes no counts, so these rows add them.
        for lane_id, count in connection.execute("SELECT lane_id, count(*) FROM jobs_queueitem GROUP BY 1").fetchall():
            connection.execute(
                "INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount) "
                "VALUES (%s, %s, 1, 'stage', 0, 0, '', %s)",
                [self.running.job.pk, lane_id, count],
            )
        self.workers = [register_node(connection, "worker") for _ in range(2)]
        self.claims = {worker.id: [] for worker in self.workers}
        self.open_turns = {worker.id: [] for worker in self.workers}
        self.facts = facts_of(self.running.job, tracks_depth=True, max_depth=6)

    STEPS = (
        ["stuff"] * 5 + ["take"] * 5 + ["flush"] * 8 + ["give_back", "lose", "withdraw", "fold", "fold", "run_again"]
    )

    def beside(self, connection, *, seed):
        """Return another walk with the same documents for another thread, with its own connection and workers."""
        other = copy.copy(self)
        other.connection, other.draw = connection, random.Random(seed)
        other.workers = [register_node(connection, "worker") for _ in range(2)]
        other.claims = {worker.id: [] for worker in other.workers}
        other.open_turns = {worker.id: [] for worker in other.workers}
        return other

    def take_concurrent_step(self):
        """Take one of the steps that are allowed while other walks also take steps. Return its name."""
        self.now += seconds(self.draw.choice([1, 7]))
        with self.connection.transaction():
            self.connection.execute(_WAKE_ALL, [self.now])
        name = self.draw.choice([step for step in self.STEPS if step != "run_again"])
        getattr(self, f"_{name}")()
        return name

    def step(self):
        self.now += seconds(self.draw.choice([1, 7]))
        LaneState.objects.update(ready_at=self.now, head=0)
        name = self.draw.choice(self.STEPS)
        getattr(self, f"_{name}")()
        return name

    def _stuff(self):
        stuff(self.connection, manager=self.main.id, group=self.running.group, room=40, workers=2, now=self.now)

    def _take(self):
        worker = self.draw.choice(self.workers)
        taken = take(self.connection, worker=worker.id, room=40, idle=True, now=self.now)
        for turn in taken.turns:
            self.claims[worker.id] += turn.documents
            self.open_turns[worker.id].append(turn.id)

    def _some_claims(self, worker):
        claims = self.claims[worker.id]
        self.draw.shuffle(claims)
        count = self.draw.randint(0, len(claims))
        self.claims[worker.id] = claims[count:]
        return claims[:count]

    def _flush(self):
        worker = self.draw.choice(self.workers)
        results = [self._result(claimed) for claimed in self._some_claims(worker)]
        if not results:
            return
        flush(self.connection, worker=worker.id, results=results, outputs=JobOutputs(), now=self.now)
        if not self.claims[worker.id]:
            turns, self.open_turns[worker.id] = self.open_turns[worker.id], []
            close_turns(self.connection, turns=[ClosedTurn(turn, Pace(0.0)) for turn in turns], now=self.now)

    def _result(self, claimed):
        ending = dict(self.draw.choice(ENDINGS))
        named = self.draw.sample(NAMES, 1 if ending.get("code") == "REDIRECT" else 4)
        if "references" not in ending:
            ending["references"] = [make_reference(name, host=HOSTS[NAMES.index(name) % 3]) for name in named]
        return make_result(claimed, self.facts, lanes=self.lanes, **ending)

    def _give_back(self):
        worker = self.draw.choice(self.workers)
        give_back(self.connection, worker=worker.id, claims=self._some_claims(worker), now=self.now)

    def _lose(self):
        index = self.draw.randrange(2)
        lost = self.workers[index]
        leadership.mark_failed(self.connection, verdict=fall_silent(self.connection, lost), term=self.term)
        release_of_lost_workers(self.connection, scope="cluster", term=self.term, now=self.now)
        del self.claims[lost.id], self.open_turns[lost.id]
        self.workers[index] = register_node(self.connection, "worker")
        self.claims[self.workers[index].id], self.open_turns[self.workers[index].id] = [], []

    def _withdraw(self):
        rows = self.connection.execute("SELECT id FROM jobs_batch WHERE state = 'available'").fetchall()
        withdraw(self.connection, batches=[row[0] for row in rows], now=self.now)

    def _fold(self):
        fold(self.connection, term=self.term, now=self.now)

    def _run_again(self):
        """End the run, clean up some of the documents that it did not reach, and begin the next run."""
        if any(self.claims.values()):
            return
        self._withdraw()
        job = Job.objects.filter(pk=self.running.job.pk)
        job.update(phase="shutting_down")
        stuff_removals(self.connection, manager=self.main.id, group=self.running.group, room=10, now=self.now)
        worker = self.workers[0]
        taken = take(self.connection, worker=worker.id, room=40, idle=True, now=self.now)
        for claims in taken.removals.values():
            drop(
                self.connection,
                worker=worker.id,
                claims=claims,
                jobs={self.facts.id: self.facts},
                outputs=JobOutputs(),
                now=self.now,
            )
        run_no = self.facts.run_no + 1
        job.update(phase="active", run_no=run_no)
        self.connection.execute("UPDATE jobs_budget SET admitted = 0, run_no = %s", [run_no])
        self.running.job.refresh_from_db()
        self.facts = facts_of(self.running.job, tracks_depth=True, max_depth=6)
        self._revive_seeds()

    def _revive_seeds(self):
        Job.objects.filter(pk=self.facts.id).update(phase="starting_up")
        discover_seeds(
            self.connection,
            manager=self.main.id,
            group=self.running.group,
            job_id=self.facts.id,
            seed_id=self.running.seed.pk,
            urls=self.running.seed.urls,
            bins=WEB.bins,
            references=[make_reference(name, host=HOSTS[0]) for name in NAMES[:5]],
            now=self.now,
        )
        Job.objects.filter(pk=self.facts.id).update(phase="active")


@pytest.mark.parametrize("max_documents", [None, 40])
@pytest.mark.parametrize("seed", range(3))
def test_counters_places_and_budgets_are_exact_after_every_step(connection, seed, max_documents):
    walk = Walk(connection, seed=seed, max_documents=max_documents)
    done = set()

    for _ in range(150):
        name = walk.step()
        done.add(name)

        assert set(connection.execute(COUNTED)) == set(connection.execute(IN_THE_TABLE)), name
        assert connection.execute(_SUMS_ASTRAY).fetchall() == [], name
        assert connection.execute(_BINS_ASTRAY).fetchall() == [], name
        assert connection.execute(_BUDGETS_ASTRAY).fetchall() == [], name

    assert done == set(Walk.STEPS)
    assert walk.facts.run_no > 1


def test_counters_and_places_are_exact_after_concurrent_steps(dsn, connection):
    walk = Walk(connection, seed=1, max_documents=None)

    def work(seed):
        with psycopg.connect(dsn, autocommit=True) as own:
            beside = walk.beside(own, seed=seed)
            return {beside.take_concurrent_step() for _ in range(100)}

    with ThreadPoolExecutor(4) as pool:
        done = set().union(*pool.map(work, range(4)))

    assert done == set(Walk.STEPS) - {"run_again"}
    assert set(connection.execute(COUNTED)) == set(connection.execute(IN_THE_TABLE))
    assert connection.execute(_SUMS_ASTRAY).fetchall() == []
    assert connection.execute(_BINS_ASTRAY).fetchall() == []
    assert connection.execute("SELECT count(*) FROM jobs_queueitem WHERE stage = 2").fetchone()[0]


def test_the_counts_of_a_run_are_the_same_before_and_after_folding(connection):
    walk = Walk(connection, seed=7, max_documents=None)
    for _ in range(60):
        walk.step()
    job = {"job_id": walk.facts.id, "run_no": walk.facts.run_no}

    before = read_run(connection, **job)
    assert fold(connection, term=walk.term, now=NOON) > 0

    assert read_run(connection, **job) == before
    assert connection.execute("SELECT count(*) FROM jobs_counterdelta").fetchone() == (0,)
    assert before.processed == sum(before.codes.values())
    assert Bin.objects.count() == len(HOSTS)
    assert (
        before.pending
        == connection.execute(
            "SELECT count(*) FROM jobs_queueitem WHERE stage = %s AND run_no = %s", [Stage.PENDING, walk.facts.run_no]
        ).fetchone()[0]
    )


def test_counts_of_a_deleted_job_are_deleted(connection):
    walk = Walk(connection, seed=3, max_documents=None)
    for _ in range(40):
        walk.step()
    fold(connection, term=walk.term, now=NOON)
    walk.step()

    forget(connection, job_id=walk.facts.id)

    assert read_run(connection, job_id=walk.facts.id, run_no=walk.facts.run_no) == RunCounts()
    assert connection.execute(COUNTED).fetchall() == connection.execute(_SUMS_ASTRAY).fetchall() == []
