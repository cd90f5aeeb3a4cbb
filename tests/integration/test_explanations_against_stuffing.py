"""Proves with documents in random states that stuffing hands out exactly those for which no gate is blocked."""

import datetime as dt
import random

from django.utils import timezone

from jobs.connectors.repository.base import hash_of
from jobs.explain.explaining import explain
from jobs.explain.gates import Gate
from jobs.lifecycle.document import Action, Stage
from jobs.models import Bin, BinState, Budget, Job, LaneState, Outcome, QueueItem
from jobs.queue.offering.stuff import stuff
from jobs.queue.sql.order import FIRST_FRESH
from nodes.models import Node
from tests.support.cluster import register_node
from tests.support.factories import count_folded, make_lane, make_policy, make_rule, make_running_job

HOUR = dt.timedelta(hours=1)
DOCUMENTS = 60
# Probability that a random fact does not hold a document back.
CALM = 0.9


class RandomDocument:
    """A document in a random state, whose job, policy and host have no other document."""

    def __init__(self, number, manager, chance):
        self.chance, now = chance, timezone.now()
        self.host = f"h{number}.example"
        self.url = f"http://{self.host}/page"
        gap = self._choose(0.0, 1800.0)
        policy = make_policy(f"policy {number}", open_requests=2, min_gap=gap)
        self.is_denied = self._choose(False, True)
        if self.is_denied:
            make_rule(policy, self.host, denies=True)
        running = make_running_job(manager, policy=policy, name=f"job {number}", urls=[self.url], run_no=2)
        self.group, self.job = running.group, running.job
        Job.objects.filter(pk=self.job.pk).update(**self._job(), started_at=now - HOUR)
        lane = make_lane(running.seed, self.host, ready_at=now)
        Bin.objects.filter(pk=lane.bin_id).update(**self._host(now))
        if self._choose(False, True):
            BinState.objects.filter(bin=lane.bin_id).update(last_start_at=now)
        if self._choose(False, True):
            LaneState.objects.filter(lane=lane).update(ready_at=None)
        if self._choose(False, True):
            Budget.objects.create(job=self.job, run_no=2, most=1, admitted=1)
        self.item = QueueItem.objects.create(
            hash=hash_of(self.url), job=self.job, lane=lane, identifier=self.url, depth=0, **self._document(now)
        )
        count_folded(lane_id=lane.pk, job_id=self.job.pk, run_no=2, measure="stage", stage=self.item.stage, amount=1)

    def _choose(self, usual, *others):
        return usual if self.chance.random() < CALM else self.chance.choice(others)

    def _job(self):
        return self._choose(
            {},
            {"pause": "paused"},
            {"window": "waiting"},
            {"resuming": True},
            {"stop_request": "abort"},
            {"connectors_ready": False},
            {"archive_hold": "The store is full."},
            {"move_hold": 3},
            {"phase": "inactive"},
            {"phase": "shutting_down"},
            {"scan": "recheck"},
            {"scan": "changes"},
            {"kind": "continuous", "recrawl_after": HOUR},
        )

    def _host(self, now):
        return self._choose(
            {},
            {"stopped_at": now, "stopped_by": "vera", "stopped_why": "they called"},
            {"back_off_level": 1, "back_off_until": now + HOUR},
            {"back_off_level": 1, "back_off_until": now - HOUR},
            {"is_known": False},
        )

    def _document(self, now):
        due = {"stage": Stage.PENDING, "run_no": 2, "seq": FIRST_FRESH + 1}
        retried = {"stage": Stage.PENDING, "run_no": 2, "failures": 1, "admitted_run": 2}
        done = {"stage": Stage.DONE, "outcome": Outcome.INDEXED, "result_code": "200"}
        read = {**done, "run_no": 2, "admitted_run": 2}
        if self.chance.random() < 0.5:
            return due
        return self.chance.choice(
            [
                {**retried, "check_time": now + HOUR},
                {**retried, "check_time": now - HOUR},
                {**due, "admitted_run": 2, "seq": 7},
                read,
                {**done, "run_no": 1},
                {"stage": Stage.PENDING, "run_no": 1},
                {**read, "check_time": now + HOUR},
                {**read, "check_time": now - HOUR},
                {**read, "check_time": now - HOUR, "action": Action.EXPIRE},
                {"stage": Stage.HOPCOUNT_REMOVED, "run_no": 2},
                {**read, "outcome": Outcome.FAILED, "result_code": "500"},
            ]
        )

    def explain(self):
        return explain(self.url, now=timezone.now()).sections[0]

    def is_handed_out(self, connection, manager):
        # A due document gets its number in one pass, and is handed out in the next pass.
        for _ in range(2):
            now = timezone.now()
            LaneState.objects.filter(lane=self.item.lane_id, ready_at__isnull=False).update(ready_at=now)
            stuff(connection, manager=manager.id, group=self.group, room=64, workers=1, now=now)
        return QueueItem.objects.get(hash=self.item.hash, job=self.job).stage == Stage.ACTIVE


def test_exactly_documents_without_a_blocked_gate_are_handed_out(connection):
    chance = random.Random(1)
    manager, _ = register_node(connection, "manager"), register_node(connection, "worker")
    Node.objects.update(heartbeat_at=timezone.now() + HOUR)
    documents = [RandomDocument(number, manager, chance) for number in range(DOCUMENTS)]
    explained = [(one, one.explain()) for one in documents]

    wrong = []
    for one, section in explained:
        closed = section.deciding
        if closed is not None and (closed.gate, closed.reason) == (Gate.DENY_LIST, "denied"):
            # Documents of a denied host are handed out to end as DENIED, without a request.
            continue
        if one.is_handed_out(connection, manager) != (closed is None):
            wrong.append((one.url, closed, QueueItem.objects.filter(job=one.job).values().get()))

    assert wrong == []
    assert 5 < sum(section.deciding is None for _, section in explained) < DOCUMENTS - 5
