"""
Proves that a node sends heartbeats while its work progresses, even during long statements and after a cut connection.
"""

import threading
import time

import psycopg
import pytest

from nodes.database.connections import connect
from nodes.decisions.judge import FailureCause, MarkFailed
from nodes.membership import leadership, members
from nodes.membership.heartbeat import HeartbeatThread
from tests.support.cluster import elect_main, register_node, seconds, status_of
from tests.support.waiting import wait_until

INTERVAL = seconds(0.05)
TIMEOUT = seconds(1)


@pytest.fixture
def connection(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.fixture
def worker(connection):
    return register_node(connection, "worker", timeout=TIMEOUT)


@pytest.fixture
def heartbeats(dsn, worker):
    heartbeats = HeartbeatThread(dsn=dsn, node_id=worker.id, interval=INTERVAL, timeout=TIMEOUT, give_up=TIMEOUT)
    yield heartbeats
    heartbeats.stop()


def last_beat(connection, node):
    return connection.execute("SELECT heartbeat_at FROM nodes_node WHERE id = %s", [node.id]).fetchone()[0]


def beats_again(connection, node) -> bool:
    before = last_beat(connection, node)
    wait_until(lambda: last_beat(connection, node) > before)
    return True


def test_heartbeats_carry_the_counts_that_the_work_loop_reports(connection, worker, heartbeats):
    heartbeats.progress(in_flight=3, claimed=7)
    heartbeats.start()

    wait_until(lambda: heartbeats.trust.may_begin)

    assert beats_again(connection, worker)
    assert connection.execute("SELECT progress FROM nodes_node").fetchone() == ({"in_flight": 3, "claimed": 7},)


def test_heartbeats_return_the_main_manager(connection, worker, heartbeats):
    heartbeats.start()
    term = elect_main(connection, register_node(connection))

    wait_until(lambda: heartbeats.main_id is not None)

    assert (heartbeats.main_id, heartbeats.term) == (term.main_id, term.term)


def test_heartbeats_stop_without_progress_and_continue_with_progress(connection, worker, heartbeats):
    heartbeats.start()
    wait_until(lambda: heartbeats.is_steady(seconds(0.2)))

    wait_until(lambda: heartbeats.trust.must_close)  # no call of progress() since the start

    assert not heartbeats.is_steady(seconds(0.2))
    heartbeats.progress()
    assert beats_again(connection, worker)


def test_heartbeats_show_that_the_node_was_marked_failed(connection, worker, heartbeats):
    term = elect_main(connection, register_node(connection))
    heartbeats.start()
    wait_until(lambda: heartbeats.trust.may_begin)
    verdict = MarkFailed(node_id=worker.id, scope="cluster", cause=FailureCause.PROCESS_GONE, reason="in this test")

    leadership.mark_failed(connection, verdict=verdict, term=term)

    assert heartbeats.failed.wait(timeout=10)
    assert not heartbeats.trust.may_begin


def test_heartbeats_survive_a_cut_connection_and_steadiness_starts_again(connection, worker, heartbeats):
    heartbeats.start()
    wait_until(lambda: heartbeats.is_steady(seconds(0.5)))
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"

    assert connection.execute(cut, [f"{worker.id} beat"]).fetchall() == [(True,)]

    wait_until(lambda: not heartbeats.is_steady(seconds(0.5)))
    assert beats_again(connection, worker)
    assert not heartbeats.failed.is_set()
    assert status_of(connection, worker.id) == "running"


def test_a_node_without_a_database_ends_but_is_not_marked_failed(worker):
    heartbeats = HeartbeatThread(
        dsn="host=127.0.0.1 port=1 dbname=nowhere",
        node_id=worker.id,
        interval=INTERVAL,
        timeout=TIMEOUT,
        give_up=seconds(0.2),
    )

    heartbeats.start()
    wait_until(lambda: heartbeats.has_given_up)

    assert not heartbeats.trust.may_begin
    assert not heartbeats.failed.is_set()
    heartbeats.stop()


def test_a_node_that_stopped_itself_has_not_failed(connection, worker, heartbeats):
    heartbeats.start()
    wait_until(lambda: heartbeats.is_steady(seconds(0.2)))

    members.stop(connection, node_id=worker.id, reason="asked to")

    wait_until(lambda: not heartbeats.is_steady(seconds(0.2)))
    assert not heartbeats.failed.is_set()


# --- Busy, or hung -------------------------------------------------------------------------------


def compute_for(duration):
    until = time.monotonic() + duration.total_seconds()
    while time.monotonic() < until:
        sum(range(10_000))


def test_a_node_sends_heartbeats_during_a_long_computation(connection, worker, heartbeats):
    heartbeats.start()
    heartbeats.progress()

    compute_for(2.5 * TIMEOUT)

    assert beats_again(connection, worker)
    assert heartbeats.trust.may_begin


def test_a_node_sends_heartbeats_during_a_long_statement(dsn, connection, worker, heartbeats):
    heartbeats.start()
    heartbeats.progress()

    with connect(dsn, node_id=worker.id, purpose="work", timeout=TIMEOUT) as work:
        work.execute("SELECT pg_sleep(%s)", [2.5 * TIMEOUT.total_seconds()])

    assert heartbeats.trust.may_begin
    assert beats_again(connection, worker)


def test_a_hanging_second_thread_ends_the_heartbeats(connection, worker, heartbeats):
    hangs, goes_on = threading.Event(), threading.Event()
    activity = heartbeats.watch_another_thread()

    def hang():
        activity.note_pass()
        hangs.set()
        goes_on.wait(30)
        activity.note_idle()

    thread = threading.Thread(target=hang)
    heartbeats.start()
    thread.start()
    hangs.wait(10)

    wait_until(lambda: heartbeats.progress() or heartbeats.trust.must_close)

    goes_on.set()
    thread.join()
    wait_until(lambda: heartbeats.progress() or heartbeats.trust.may_begin)


def test_a_process_is_ended_after_a_long_hang_and_not_after_a_short_hang(dsn, connection, worker):
    given_up = threading.Event()
    heartbeats = HeartbeatThread(
        dsn=dsn, node_id=worker.id, interval=INTERVAL, timeout=TIMEOUT / 2, give_up=TIMEOUT, abandon=given_up.set
    )
    heartbeats.start()
    wait_until(lambda: heartbeats.trust.must_close)
    heartbeats.progress()
    wait_until(lambda: heartbeats.progress() or heartbeats.trust.may_begin)
    assert not given_up.is_set()

    assert given_up.wait(10)

    heartbeats.stop()


# --- Notifications and queries between heartbeats ---------------------------------------------------


class Recorder:
    """Records everything that a heartbeat thread passes on."""

    def __init__(self):
        self.notes, self.answers = [], []

    def note(self, channel, payload):
        self.notes.append((channel, payload))

    def starts(self, dsn, node, **facts):
        """Start the heartbeats of this node, and the connection on which it listens for notifications."""
        heartbeats = HeartbeatThread(
            dsn=dsn,
            node_id=node.id,
            give_up=TIMEOUT,
            channels=("offers",),
            on_notification=self.note,
            answered=self.answers.append,
            **{"interval": INTERVAL, "timeout": TIMEOUT, **facts},
        )
        heartbeats.start()
        wait_until(lambda: self.notes)
        return heartbeats


def test_notifications_arrive_between_two_heartbeats(dsn, connection, worker):
    recorder = Recorder()
    heartbeats = recorder.starts(dsn, worker, interval=seconds(60), timeout=seconds(120))

    connection.execute("SELECT pg_notify('offers', 'a batch')")

    wait_until(lambda: ("offers", "a batch") in recorder.notes, within=5)
    assert recorder.notes == [("", ""), ("offers", "a batch")]
    heartbeats.stop()


def test_after_a_cut_connection_notifications_count_as_lost(dsn, connection, worker):
    recorder = Recorder()
    heartbeats = recorder.starts(dsn, worker, interval=seconds(60), timeout=seconds(120))
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"

    assert connection.execute(cut, [f"{worker.id} beat"]).fetchall() == [(True,)]

    wait_until(lambda: recorder.notes == [("", ""), ("", "")], within=5)
    connection.execute("SELECT pg_notify('offers', 'another')")
    wait_until(lambda: ("offers", "another") in recorder.notes, within=5)
    heartbeats.stop()


def test_a_heartbeat_queries_conditions_about_its_node(dsn, worker):
    recorder = Recorder()
    asks = {
        "is a worker": "EXISTS (SELECT FROM nodes_node WHERE id = beaten.id AND kind = 'worker')",
        "has documents": "EXISTS (SELECT FROM jobs_queueitem)",
    }

    heartbeats = recorder.starts(dsn, worker, asks=asks)

    wait_until(lambda: recorder.answers)
    assert recorder.answers[0] == {"is a worker"}
    heartbeats.stop()


def test_a_node_sends_heartbeats_while_a_table_of_its_conditions_is_locked(dsn, connection, worker):
    recorder = Recorder()
    heartbeats = recorder.starts(dsn, worker, asks={"has documents": "EXISTS (SELECT FROM jobs_queueitem)"})
    wait_until(lambda: recorder.answers)
    assert not any(recorder.answers)

    with connection.transaction():
        connection.execute("LOCK TABLE jobs_queueitem IN ACCESS EXCLUSIVE MODE")
        # The node then searches for work by itself.
        wait_until(lambda: {"has documents"} in recorder.answers)
        assert heartbeats.trust.may_begin
        wait_until(lambda: heartbeats.progress() or heartbeats.is_steady(TIMEOUT))

    heartbeats.stop()
