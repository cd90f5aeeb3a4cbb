"""Proves that a bin with many documents, and many bins with one document, keep their pace when crawled together."""

from dataclasses import replace

import pytest

from jobs.loops.worker.host_queue import BinQueue, PacedBin
from jobs.queue.flushing.flush import flush
from jobs.queue.offering.stuff import stuff
from jobs.queue.pace.close import close_turns
from jobs.queue.take import take
from tests.support.cluster import NOON, register_node, seconds
from tests.support.factories import make_documents, make_hosts, make_lane, make_policy, make_result, make_running_job

# Maximum number of claimed documents of a worker: the work of one second.
CAPACITY = 200
SMALL = 1500


class SteppedPace:
    """A worker that keeps the pace of its turns on a simulated clock, and a manager that stuffs once a second."""

    def __init__(self, connection, *jobs):
        self._connection, self._jobs = connection, jobs
        self._worker = register_node(connection, "worker", capacity=CAPACITY)
        self._bins = {}
        self._left_in_batch = {}
        self.second = 0

    def step(self):
        """Let one second pass. Return the names of the documents that were fetched in it."""
        now = NOON + seconds(self.second)
        for job in self._jobs:
            (offered,) = self._connection.execute(
                "SELECT coalesce(sum(documents), 0) FROM jobs_batch WHERE state = 'available'"
            ).fetchone()
            room = max(1, (CAPACITY - offered) // len(self._jobs))
            stuff(
                self._connection, manager=job.manager.id, group=job.group, room=room, workers=1, now=now
            )  # fmt: skip
        self._take(now)
        fetched, closed = self._fetch()
        facts = {job.job.pk: job.facts for job in self._jobs}
        results = [make_result(claimed, facts[claimed.job_id]) for claimed in fetched]
        flush(self._connection, worker=self._worker.id, results=results, now=now)
        done = [batch for batch, left in self._left_in_batch.items() if not left]
        self._left_in_batch = {batch: left for batch, left in self._left_in_batch.items() if left}
        close_turns(self._connection, turns=closed, batches=done, now=now)
        self.second += 1
        return [claimed.document.identifier for claimed in fetched]

    def _take(self, now):
        claimed = sum(self._left_in_batch.values())
        room = CAPACITY - claimed
        if room <= 0:
            return
        for turn in take(self._connection, worker=self._worker.id, room=room, idle=not claimed, now=now).turns:
            self._bins.setdefault(turn.bin_id, BinQueue(PacedBin(turn.bin_id))).add(turn, now=self.second)
            self._left_in_batch[turn.batch_id] = self._left_in_batch.get(turn.batch_id, 0) + len(turn.documents)

    def _fetch(self):
        fetched, closed = [], []
        for queue in self._bins.values():
            while queue.may_begin and queue.next_start <= self.second:
                turn, claimed = queue.begin(now=self.second)
                queue.end(turn)
                fetched.append(claimed)
                self._left_in_batch[claimed.batch_id] -= 1
            closed += [replace(turn, pace=None) for turn in queue.close_ended()]
        return fetched, closed


def fill_small(job, **facts):
    """Add hosts with one document each."""
    make_hosts(job.seed, [f"host-{number}.example" for number in range(SMALL)], **facts)


def crawl(cluster, *, steps):
    """Return the numbers of fetched documents of the large host, and of all small hosts."""
    fetched = [name for _ in range(steps) for name in cluster.step()]
    large = sum(name.startswith("http://large.example/") for name in fetched)
    return large, len(fetched) - large


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "unknown"])
def test_a_large_bin_and_many_small_bins_of_a_job_keep_their_pace(connection, manager, is_known):
    job = make_running_job(manager, policy=make_policy(min_gap=1.0, open_requests=1))
    make_documents(make_lane(job.seed, "large.example"), 100)
    cluster = SteppedPace(connection, job)
    crawl(cluster, steps=3)

    # The small hosts were ready a minute ago, and the large host becomes ready later.
    fill_small(job, ready_at=NOON - seconds(60), is_known=is_known)
    large, small = crawl(cluster, steps=8)

    assert large == 8
    # A turn of the large host and the successor of this turn always take part of the worker's capacity.
    assert small >= 0.8 * 8 * (CAPACITY - 10)


def test_a_large_bin_without_a_pace_leaves_capacity_for_small_bins(connection, manager):
    job = make_running_job(manager, policy=make_policy(open_requests=1))
    make_documents(make_lane(job.seed, "large.example"), 1000)
    cluster = SteppedPace(connection, job)
    crawl(cluster, steps=3)

    fill_small(job, ready_at=NOON - seconds(60))
    large, small = crawl(cluster, steps=8)

    assert large > 0
    assert small >= 0.4 * 8 * CAPACITY
