"""Proves that a request whose answer was lost has its effect once, and that no process waits forever for an answer."""

import datetime as dt
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg
import pytest
from django.db import OperationalError
from django.db import connection as django_connection

from jobs.duties.allocate import allocate_groups
from jobs.duties.context import Pass
from jobs.loops.database import WorkConnection
from jobs.models import Batch, QueueItem, Seed, ThrottleGroup
from jobs.queue import release
from jobs.queue.flushing.flush import flush
from jobs.queue.offering.stuff import stuff
from jobs.queue.take import take
from nodes.database.connections import ConnectionWithTimeouts, connect, without_timeouts
from nodes.decisions.elect import elect
from nodes.life.identity import NodeIdentity
from nodes.lifecycle import NodeKind
from nodes.membership import leadership, members, snapshot
from nodes.membership.heartbeat import HeartbeatThread
from tests.support.cluster import NOON, TIMEOUT, elect_main, events_of, seconds, status_of
from tests.support.factories import facts_of, make_documents, make_lane, make_policy, make_result, make_running_job
from tests.support.proxy import SYNC, Direction, Proxy
from tests.support.waiting import wait_until


@pytest.fixture
def proxy(dsn):
    with Proxy.of_database(dsn) as running:
        yield running


@pytest.fixture
def work(proxy, dsn):
    """Yield the work connection of a daemon through the proxy."""
    made = WorkConnection(
        proxy.dsn(dsn),
        node_id=uuid.uuid4(),
        timeout=TIMEOUT,
        longest_pause=seconds(0.1),
        gives_up=lambda failing_for: failing_for > 30,
    )
    yield made
    made.close()


@pytest.fixture
def identity():
    return NodeIdentity.of_this_process(kind=NodeKind.WORKER, scope="cluster", name="here", timeout=TIMEOUT)


@pytest.fixture
def running(manager):
    """Return a job in the middle of its run, with three due documents."""
    made = make_running_job(manager, policy=make_policy(open_requests=1000))
    make_documents(make_lane(made.seed), 3)
    return made


def stuff_all(connection, running):
    return stuff(connection, manager=running.manager.id, group=running.group, room=100, workers=1, now=NOON)


def take_all(connection, worker):
    taken = take(connection, worker=worker.id, room=100, idle=True, now=NOON)
    return [claimed for turn in taken.turns for claimed in turn.documents]


# --- Carried out once ----------------------------------------------------------------------------


@pytest.mark.parametrize("unanswered", [b"INSERT INTO nodes_node ", b"UPDATE nodes_node SET status", b"COMMIT"])
def test_a_node_whose_registration_got_no_answer_is_registered_once(proxy, work, connection, identity, unanswered):
    lost = proxy.lose_answer(unanswered)

    work.run(lambda mine: members.join(mine, identity=identity))

    assert lost.done()
    assert status_of(connection, identity.id) == "running"
    assert events_of(connection, identity.id) == ["registered", "running"]


def test_a_main_whose_election_got_no_answer_finds_itself_elected(proxy, work, connection):
    me = NodeIdentity.of_this_process(kind=NodeKind.MANAGER, scope="cluster", name="here", timeout=TIMEOUT)
    members.join(connection, identity=me)
    lost = proxy.lose_answer(b"COMMIT")

    def keep_main_role(mine):
        cluster = snapshot.read_scope(mine, scope="cluster", me=me)
        candidacy = elect(cluster, beat=seconds(1), is_steady=lambda _duration: True)
        if candidacy is not None:
            leadership.elect(mine, node_id=me.id, scope=candidacy.scope, seen_term=candidacy.seen_term)
        return cluster

    cluster = work.run(keep_main_role)

    assert lost.done()
    assert (cluster.i_am_main, cluster.term.term) == (True, 1)
    assert events_of(connection, me.id).count("elected") == 1


def test_groups_whose_assignment_got_no_answer_are_assigned_once(proxy, work, connection, manager, running):
    term = elect_main(connection, manager)
    Seed.objects.update(group=None)
    ThrottleGroup.objects.all().delete()
    lost = proxy.lose_answer(b"COMMIT")

    def allocate(mine):
        return allocate_groups(Pass(connection=mine, me=manager.id, scope="cluster", now=NOON, term=term, groups=()))

    work.run(allocate)

    assert lost.done()
    assert [(group.owner_id, group.epoch) for group in ThrottleGroup.objects.all()] == [(manager.id, 1)]


def test_documents_whose_offer_got_no_answer_are_offered_once(proxy, work, running):
    lost = proxy.lose_answer(SYNC)

    work.run(lambda mine: stuff_all(mine, running))

    assert lost.done()
    assert [batch.documents for batch in Batch.objects.all()] == [3]


def test_a_worker_finds_batches_that_it_took_without_an_answer(proxy, work, connection, running, worker):
    stuff_all(connection, running)
    offered = set(Batch.objects.values_list("pk", flat=True))
    lost = proxy.lose_answer(b"UPDATE jobs_batch")

    assert work.run(lambda mine: take_all(mine, worker)) == []

    assert lost.done()
    strange = release.batches_of(connection, worker=worker.id)
    assert strange == offered
    assert release.give_back_batches(connection, worker=worker.id, batches=strange, now=NOON) == 3
    stuff_all(connection, running)
    assert len(take_all(connection, worker)) == 3


def test_outcomes_whose_flush_got_no_answer_count_once(proxy, work, connection, running, worker):
    stuff_all(connection, running)
    results = [make_result(claimed, facts_of(running.job)) for claimed in take_all(connection, worker)]
    lost = proxy.lose_answer(SYNC)

    again = work.run(partial(flush, worker=worker.id, results=results, now=NOON))

    assert lost.done()
    assert (again.written, again.refused) == (0, 3)
    assert list(QueueItem.objects.values_list("stage", "result_code")) == [(2, "200")] * 3
    counted = connection.execute(
        "SELECT sum(amount) FROM jobs_counterdelta WHERE measure = 'stage' AND stage = 2"
    ).fetchone()
    assert counted == (3,)


# --- No endless waits ----------------------------------------------------------------------------


def test_after_a_missing_answer_the_work_uses_a_new_connection(proxy, dsn):
    patient = WorkConnection(
        proxy.dsn(dsn),
        node_id=uuid.uuid4(),
        timeout=seconds(0.2),
        longest_pause=seconds(0.1),
        gives_up=lambda _failing_for: False,
    )
    assert patient.run(lambda mine: mine.execute("SELECT 1").fetchone()) == (1,)
    proxy.cut()

    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(patient.run, lambda mine: mine.execute("SELECT 2").fetchone())
        wait_until(lambda: proxy.connections > 1)
        proxy.heal()

        assert future.result(10) == (2,)
    patient.close()


def test_a_stop_ends_the_wait_for_an_answer(proxy, dsn):
    stops = []
    work = WorkConnection(
        proxy.dsn(dsn),
        node_id=uuid.uuid4(),
        timeout=TIMEOUT,
        longest_pause=seconds(0.1),
        gives_up=lambda _failing_for: bool(stops),
    )
    work.run(lambda mine: mine.execute("SELECT 1"))
    proxy.cut()

    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(work.run, lambda mine: mine.execute("SELECT 2"))
        stops.append("now")

        with pytest.raises(psycopg.OperationalError, match="has not answered for"):
            future.result(10)


def test_a_session_that_ended_with_its_idle_transaction_is_opened_again(work, connection):
    calls = []

    def freeze(mine):
        calls.append(mine)
        with mine.transaction():
            if len(calls) == 1:
                mine.execute("SET idle_in_transaction_session_timeout = 50")
                pid = mine.info.backend_pid
                wait_until(
                    lambda: connection.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone() is None
                )
            return mine.execute("SELECT 1").fetchone()

    assert work.run(freeze) == (1,)
    assert len(calls) == 2


def test_a_migration_is_not_ended_by_the_limit_of_answers(dsn):
    with connect(dsn, node_id=uuid.uuid4(), purpose="work", timeout=seconds(0.05)) as mine:
        with pytest.raises(psycopg.errors.QueryCanceled):
            mine.execute("SELECT pg_sleep(0.3)")

        with without_timeouts(mine):
            mine.execute("SELECT pg_sleep(0.3)")

        with pytest.raises(psycopg.errors.QueryCanceled):
            mine.execute("SELECT pg_sleep(0.3)")


@pytest.mark.parametrize("direction", [*list(Direction), Direction.BOTH], ids=str)
def test_heartbeats_continue_within_two_intervals_of_a_repaired_connection(proxy, dsn, connection, worker, direction):
    beat = seconds(0.5)
    heartbeats = HeartbeatThread(
        dsn=proxy.dsn(dsn), node_id=worker.id, interval=beat, timeout=4 * beat, give_up=seconds(600)
    )
    heartbeats.start()
    wait_until(lambda: heartbeats.trust.may_begin)

    proxy.cut(direction)
    wait_until(lambda: heartbeats.trust.must_close)
    assert not heartbeats.is_steady(seconds(0.1))
    proxy.heal()
    mended_at = connection.execute("SELECT clock_timestamp()").fetchone()[0]

    wait_until(lambda: heartbeats.trust.may_begin)
    silent_for = last_beat(connection, worker) - mended_at
    heartbeats.stop()
    assert silent_for < 2 * beat


def last_beat(connection, node) -> dt.datetime:
    return connection.execute("SELECT heartbeat_at FROM nodes_node WHERE id = %s", [node.id]).fetchone()[0]


def test_a_page_with_a_hanging_connection_shows_it_within_seconds(proxy, dsn):
    wrapper = django_connection.copy()
    address = psycopg.conninfo.conninfo_to_dict(proxy.dsn(dsn))
    wrapper.settings_dict |= {
        "HOST": address["host"],
        "PORT": str(address["port"]),
        "ENGINE": "crawlctl.postgres.backend",
    }
    wrapper.settings_dict["OPTIONS"].pop("directory", None)
    with wrapper.cursor() as cursor:
        cursor.execute("SELECT 1")
    assert isinstance(wrapper.connection, ConnectionWithTimeouts)
    proxy.cut()

    assert not wrapper.is_usable()

    wrapper.close()
    with pytest.raises(OperationalError, match="timeout"):
        wrapper.ensure_connection()
    proxy.heal()
    wrapper.ensure_connection()
    wrapper.close()
