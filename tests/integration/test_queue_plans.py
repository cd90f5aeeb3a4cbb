"""
Proves on very many documents that the most frequent statements use their indexes. Each statement is explained as it
runs.
"""

import json

import psycopg
import pytest

from jobs.connectors.repository.kind import BinKind
from jobs.lifecycle.document import Stage
from jobs.queue.discover import open_lanes
from jobs.queue.flushing.flush import flush
from jobs.queue.offering.stuff import stuff
from jobs.queue.pace.end_back_off import retry_without_back_off
from jobs.queue.rounds import Rounds
from jobs.queue.sql import transaction
from jobs.queue.sql.transaction import WaitingCursor
from jobs.queue.take import take
from tests.support.cluster import NOON, register_node, seconds
from tests.support.factories import make_lane, make_policy, make_result, make_running_job
from tests.support.filled_queue import FilledQueue, Shape

LANES = 50
_EXPLAINED = ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE")


class ExplainingCursor(psycopg.Cursor):
    """A cursor that explains every statement just before it runs, in the same transaction."""

    plans: list[dict]

    def execute(self, query, params=None, **options):
        text = query if isinstance(query, str) else ""
        if text.strip().upper().startswith(_EXPLAINED):
            explained = psycopg.Cursor(self.connection).execute(f"EXPLAIN (FORMAT JSON, COSTS OFF) {text}", params)
            found = explained.fetchone()[0]
            self.plans.append((found if isinstance(found, list) else json.loads(found))[0]["Plan"])
        return super().execute(query, params, **options)


class ExplainingWaitingCursor(ExplainingCursor, WaitingCursor):
    """An explaining cursor for transactions without BEGIN."""


@pytest.fixture
def connection(new_connection):
    """Return a connection whose backend has no cached plans of other tests."""
    return new_connection


@pytest.fixture
def plans(dsn, connection):
    """Return the list of plans that were explained on the `explaining` connection."""
    ExplainingCursor.plans = []
    return ExplainingCursor.plans


@pytest.fixture
def explaining(dsn, plans, monkeypatch):
    monkeypatch.setattr(transaction, "WaitingCursor", ExplainingWaitingCursor)
    with psycopg.connect(dsn, autocommit=True, cursor_factory=ExplainingCursor) as opened:
        yield opened


@pytest.fixture
def running(connection):
    """Return a job with 30,000 documents: most are done, many are due, some wait. It also has many ended batches."""
    running = make_running_job(register_node(connection, "manager"), policy=make_policy(open_requests=1000))
    lanes = [make_lane(running.seed, f"h{number}.example").pk for number in range(LANES)]
    connection.execute(
        """
        INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, action, depth,
                                    seq, check_time, outcome, result_code)
        SELECT md5(n::text)::uuid, %(job)s, (%(lanes)s::bigint[])[1 + n %% %(count)s], 'http://h.example/' || n,
               CASE WHEN n %% 10 < 6 THEN 2 ELSE 0 END, false, false, 1, 0, 0,
               CASE WHEN n %% 10 BETWEEN 6 AND 8 THEN (1::bigint << 56) + n END,
               CASE WHEN n %% 10 = 9 THEN %(now)s::timestamptz - n * interval '1 ms' END,
               CASE WHEN n %% 10 < 6 THEN 1 ELSE 0 END, CASE WHEN n %% 10 < 6 THEN '200' ELSE '' END
          FROM generate_series(1, 30000) AS n
        """,
        {"job": running.job.pk, "lanes": lanes, "count": LANES, "now": NOON},
    )
    connection.execute(
        """
        INSERT INTO jobs_batch (group_id, node_scope, kind, state, documents, created_at)
        SELECT %s, 'cluster', 'process', 'done', 32, %s FROM generate_series(1, 6000)
        """,
        [running.group.id, NOON],
    )
    connection.execute("ANALYZE")
    return running


def nodes_of(plan):
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes_of(below)


def all_nodes(plans):
    return [node for plan in plans for node in nodes_of(plan)]


def indexes_used(plans):
    return {node["Index Name"] for node in all_nodes(plans) if "Index Name" in node}


def tables_read_whole(plans):
    """Return the tables that were read by a sequential scan, or by a scan of an index without a condition."""
    return {
        node["Relation Name"]
        for node in all_nodes(plans)
        if node["Node Type"] == "Seq Scan"
        or (node["Node Type"] in {"Index Scan", "Index Only Scan"} and "Index Cond" not in node)
    }


def test_no_frequent_statement_reads_the_whole_queue(connection, explaining, plans, running):
    worker = register_node(connection, "worker")
    later = NOON + seconds(1)

    stuff(explaining, manager=running.manager.id, group=running.group, room=500, workers=1, now=later)
    of_stuffing = plans[:]
    plans.clear()
    taken = take(explaining, worker=worker.id, room=1000, idle=True, now=later)
    of_taking = plans[:]
    plans.clear()
    claims = [claimed for turn in taken.turns for claimed in turn.documents]
    lane = make_lane(running.seed, "another.example")
    results = [make_result(claimed, running.facts, names=range(40), lanes=[lane]) for claimed in claims]
    flushed = flush(explaining, worker=worker.id, results=results, now=later)
    of_flushing = plans[:]
    plans.clear()
    Rounds().go_on(explaining, groups=[running.group.id], now=later)

    assert flushed.written == len(claims) > 50
    busy = {"jobs_queueitem", "jobs_batch", "jobs_outlinks"}
    for step in (of_stuffing, of_taking, of_flushing, plans):
        assert step
        assert not tables_read_whole(step) & busy
    assert {"document_due", "document_waiting"} <= indexes_used(of_stuffing)
    assert {"batch_available", "document_claimed"} <= indexes_used(of_taking)


def test_the_end_of_a_back_off_reads_only_the_next_documents_of_its_host(connection, explaining, plans, running):
    lane = running.seed.lanes.first()

    retry_without_back_off(explaining, bin_id=lane.bin_id, now=NOON - seconds(3600))

    assert "jobs_queueitem" not in tables_read_whole(plans)
    (found,) = [node for node in all_nodes(plans) if node.get("Index Name") == "document_waiting"]
    assert "check_time" in found["Index Cond"]


def test_the_documents_of_a_lane_are_read_in_the_order_of_its_index(connection, explaining, plans, running):
    """
    The index gives the order, so no rows are sorted before the limit. The cost of stuffing does not grow with the
    lanes.
    """
    stuff(explaining, manager=running.manager.id, group=running.group, room=500, workers=1, now=NOON)

    limits = [node for node in all_nodes(plans) if node["Node Type"] == "Limit"]
    below = [below for limit in limits for below in nodes_of(limit) if below.get("Relation Name") == "jobs_queueitem"]
    assert {node["Node Type"] for node in below if node.get("Index Name") == "document_due"} <= {
        "Index Scan",
        "Index Only Scan",
    }
    sorts = [
        node
        for limit in limits
        for node in nodes_of(limit)
        if node["Node Type"] == "Sort" and any(n.get("Index Name") == "document_due" for n in nodes_of(node))
    ]
    assert not sorts
    assert connection.execute("SELECT count(*) FROM jobs_queueitem WHERE stage = %s", [Stage.ACTIVE]).fetchone()[0]


def test_no_step_of_a_document_reads_all_lanes_or_all_bins(connection, explaining, plans):
    queue = FilledQueue(connection, documents=100_000, shape=Shape(bins=10_000, waiting=0.5))
    queue.connection = explaining

    queue.stuff(100)
    taken = queue.take(100)
    flushed = queue.flush(queue.results_of(taken, new=2, known=2))
    queue.close(taken, flushed)
    queue.walk()
    seed = queue.seeds[0]
    open_lanes(
        explaining,
        bins=BinKind("web", asks_first=True, requests=2, gap=1.0),
        wanted=[(seed, "h1.example"), (seed, "new.example")],
    )

    assert flushed.written == 100
    assert plans
    read_whole = [
        plan
        for plan in plans
        if tables_read_whole([plan]) & {"jobs_queueitem", "jobs_lane", "jobs_lanestate", "jobs_bin", "jobs_binstate"}
    ]
    assert not read_whole
