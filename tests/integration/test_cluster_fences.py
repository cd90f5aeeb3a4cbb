"""Proves that the fences of the cluster hold in each race. In each test, two connections really wait for each other."""

import concurrent.futures
from collections.abc import Callable
from contextlib import contextmanager

import psycopg
import pytest

from nodes.database.connections import connect
from nodes.decisions.judge import FailureCause, MarkFailed
from nodes.membership import leadership, members
from nodes.membership.fences import FenceRefused, TermHeld, hold_node, hold_term
from tests.support.cluster import TIMEOUT, elect_main, events_of, fall_silent, register_node, seconds, status_of
from tests.support.waiting import wait_until


class Cluster:
    """The connections of a test. It knows which of them wait for a lock."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.opened: list[psycopg.Connection] = []
        self.watch = self.open()
        self.threads = concurrent.futures.ThreadPoolExecutor(max_workers=4)

    def open(self) -> psycopg.Connection:
        connection = psycopg.connect(self.dsn, autocommit=True)
        connection.execute("SET lock_timeout = '10s'")
        self.opened.append(connection)
        return connection

    def open_as(self, node) -> psycopg.Connection:
        connection = connect(self.dsn, node_id=node.id, purpose="work", timeout=node.timeout)
        self.opened.append(connection)
        return connection

    @contextmanager
    def transaction(self, *, holding: Callable[[psycopg.Connection], None]):
        """
        Yield another connection with an open transaction. `holding` takes its locks. It commits after the block.
        """
        other = self.open()
        with other.transaction():
            holding(other)
            yield other

    def start(self, call: Callable[..., object], /, **arguments) -> "Waiting":
        """Begin the call on a new connection, and return when it waits for a lock."""
        connection = self.open()
        future = self.threads.submit(call, connection, **arguments)
        wait_until(lambda: self._is_blocked(connection) or future.done())
        assert not future.done(), f"the call did not wait for a lock: {future}"
        return Waiting(future)

    def close(self) -> None:
        self.threads.shutdown()
        for connection in self.opened:
            connection.close()

    def _is_blocked(self, connection: psycopg.Connection) -> bool:
        (blockers,) = self.watch.execute("SELECT pg_blocking_pids(%s)", [connection.info.backend_pid]).fetchone()
        return bool(blockers)


class Waiting:
    def __init__(self, future: concurrent.futures.Future) -> None:
        self._future = future

    @property
    def is_over(self) -> bool:
        return self._future.done()

    def result(self):
        return self._future.result(timeout=10)


@pytest.fixture
def cluster(dsn):
    cluster = Cluster(dsn)
    yield cluster
    cluster.close()


@pytest.fixture
def connection(cluster):
    return cluster.open()


def hold_node_in_transaction(connection, *, node_id):
    with connection.transaction():
        hold_node(connection, node_id)


def hold_term_in_transaction(connection, *, term):
    with connection.transaction():
        hold_term(connection, term)


# --- The node fence ------------------------------------------------------------------------------


def test_marking_a_node_failed_waits_for_a_writer_at_the_node_fence(cluster, connection):
    main, worker = register_node(connection), register_node(connection, "worker")
    term, verdict = elect_main(connection, main), fall_silent(connection, worker)

    with cluster.transaction(holding=lambda writer: hold_node(writer, worker.id)):
        marking = cluster.start(leadership.mark_failed, verdict=verdict, term=term)
        assert status_of(connection, worker.id) == "running"

    assert marking.result() is True
    assert status_of(connection, worker.id) == "failed"
    with pytest.raises(FenceRefused) as refused:
        hold_node_in_transaction(connection, node_id=worker.id)
    assert (refused.value.fence, refused.value.facts) == ("node", {"node": worker.id})


def test_a_writer_that_waited_while_its_node_was_marked_is_refused(cluster, connection):
    """The UPDATE of a mark alone would admit the writer: only FOR UPDATE conflicts with KEY SHARE."""
    main, worker = register_node(connection), register_node(connection, "worker")
    term, verdict = elect_main(connection, main), fall_silent(connection, worker)

    with cluster.transaction(holding=lambda judge: leadership.mark_failed(judge, verdict=verdict, term=term)):
        writing = cluster.start(hold_node_in_transaction, node_id=worker.id)

    with pytest.raises(FenceRefused):
        writing.result()


def test_a_heartbeat_does_not_wait_for_the_writers_of_its_node(cluster, connection):
    worker = register_node(connection, "worker")

    with cluster.transaction(holding=lambda writer: hold_node(writer, worker.id)):
        assert members.beat(connection, node_id=worker.id, progress={}).is_fit


def test_a_heartbeat_sees_the_mark_as_failed_for_which_it_waited(cluster, connection):
    main, worker = register_node(connection), register_node(connection, "worker")
    term, verdict = elect_main(connection, main), fall_silent(connection, worker)

    with cluster.transaction(holding=lambda judge: leadership.mark_failed(judge, verdict=verdict, term=term)):
        beating = cluster.start(members.beat, node_id=worker.id, progress={})

    assert beating.result().status == "failed"


def test_a_node_whose_heartbeat_precedes_its_mark_as_failed_stays_live(cluster, connection):
    main, worker = register_node(connection), register_node(connection, "worker")
    term, verdict = elect_main(connection, main), fall_silent(connection, worker)

    with cluster.transaction(holding=lambda other: members.beat(other, node_id=worker.id, progress={})):
        marking = cluster.start(leadership.mark_failed, verdict=verdict, term=term)

    assert marking.result() is False
    assert status_of(connection, worker.id) == "running"


def test_a_frozen_transaction_of_a_node_does_not_delay_its_mark_as_failed(cluster, connection):
    main, worker = register_node(connection), register_node(connection, "worker", timeout=seconds(3600))
    term = elect_main(connection, main)
    frozen = cluster.open_as(worker)
    frozen.execute("BEGIN")
    hold_node(frozen, worker.id)
    connection.execute("UPDATE nodes_node SET heartbeat_at = heartbeat_at - interval '2 h' WHERE id = %s", [worker.id])
    verdict = MarkFailed(node_id=worker.id, scope="cluster", cause=FailureCause.SILENT, reason="silent")

    assert leadership.mark_failed(connection, verdict=verdict, term=term)

    with pytest.raises(psycopg.OperationalError):
        frozen.execute("COMMIT")


def test_a_frozen_transaction_ends_by_itself_before_the_timeout(cluster, connection):
    worker = register_node(connection, "worker", timeout=seconds(0.5))
    frozen = cluster.open_as(worker)

    frozen.execute("BEGIN")
    hold_node(frozen, worker.id)

    wait_until(lambda: not connection.execute(SESSIONS_OF, [str(worker.id)]).fetchall())


SESSIONS_OF = "SELECT pid FROM pg_stat_activity WHERE starts_with(application_name, %s)"


def test_a_fence_outside_a_transaction_raises_an_error(connection):
    node = register_node(connection)

    with pytest.raises(RuntimeError, match="needs a transaction"):
        hold_node(connection, node.id)


# --- The term fence ------------------------------------------------------------------------------


def test_two_concurrent_elections_give_one_main(cluster, connection):
    first, second = register_node(connection), register_node(connection)

    with cluster.transaction(
        holding=lambda other: leadership.elect(other, node_id=first.id, scope="cluster", seen_term=0)
    ):
        electing = cluster.start(leadership.elect, node_id=second.id, scope="cluster", seen_term=0)

    assert electing.result() is None
    assert connection.execute("SELECT main_id, term FROM nodes_mainterm").fetchone() == (first.id, 1)


def test_the_winner_marks_the_old_main_failed_in_the_same_transaction(cluster, connection):
    old, new = register_node(connection), register_node(connection)
    old_term, verdict = elect_main(connection, old), fall_silent(connection, old)

    held = leadership.elect(connection, node_id=new.id, scope="cluster", seen_term=1, replaces=verdict)

    assert held == TermHeld(scope="cluster", term=2, main_id=new.id)
    assert events_of(connection, old.id)[-1] == "marked_failed"
    marked_by, elected_by = connection.execute(
        "SELECT array_agg(DISTINCT xmin::text), count(*) FROM nodes_nodeevent WHERE kind = 'marked_failed' OR node_id = %s AND kind = 'elected'",
        [new.id],
    ).fetchone()
    assert (len(marked_by), elected_by) == (1, 2)
    with pytest.raises(FenceRefused) as refused:
        hold_term_in_transaction(connection, term=old_term)
    assert refused.value.fence == "term"


def test_an_election_waits_for_open_writes_of_the_old_main_manager(cluster, connection):
    """
    A write of the old main holds the term while it waits for the lock of another row. The election waits for it, too.
    """
    old, new, worker = register_node(connection), register_node(connection), register_node(connection, "worker")
    old_term = elect_main(connection, old)
    of_worker, of_old = fall_silent(connection, worker), fall_silent(connection, old)

    with cluster.transaction(holding=lambda writer: hold_node(writer, worker.id)):
        marking = cluster.start(leadership.mark_failed, verdict=of_worker, term=old_term)
        electing = cluster.start(leadership.elect, node_id=new.id, scope="cluster", seen_term=1, replaces=of_old)
        assert not marking.is_over

    assert marking.result() is True
    assert electing.result().term == 2
    order = connection.execute(
        "SELECT node_id FROM nodes_nodeevent WHERE kind = 'marked_failed' ORDER BY id"
    ).fetchall()
    assert order == [(worker.id,), (old.id,)]


def test_a_write_of_the_old_main_that_waited_for_an_election_is_refused(cluster, connection):
    old, new, worker = register_node(connection), register_node(connection), register_node(connection, "worker")
    old_term = elect_main(connection, old)
    of_worker, of_old = fall_silent(connection, worker), fall_silent(connection, old)

    with cluster.transaction(
        holding=lambda other: leadership.elect(other, node_id=new.id, scope="cluster", seen_term=1, replaces=of_old)
    ):
        marking = cluster.start(leadership.mark_failed, verdict=of_worker, term=old_term)

    with pytest.raises(FenceRefused):
        marking.result()
    assert status_of(connection, worker.id) == "running"


def test_a_node_missing_in_zookeeper_fails_only_if_still_silent_under_lock(connection):
    main, missed = register_node(connection), register_node(connection)
    term, cause = elect_main(connection, main), FailureCause.ABSENT
    verdict = MarkFailed(node_id=missed.id, scope="cluster", cause=cause, reason="gone, and silent")

    def silent_for(share):
        connection.execute(
            "UPDATE nodes_node SET heartbeat_at = clock_timestamp() - make_interval(secs => timeout_seconds * %s)"
            " WHERE id = %s",
            [share, missed.id],
        )
        return leadership.mark_failed(connection, verdict=verdict, term=term)

    assert not silent_for(0.5)
    assert status_of(connection, missed.id) == "running"
    assert silent_for(0.8)
    assert status_of(connection, missed.id) == "failed"


def test_a_main_that_sends_a_heartbeat_during_its_replacement_stays_main(cluster, connection):
    old, new = register_node(connection), register_node(connection)
    term, verdict = elect_main(connection, old), fall_silent(connection, old)

    with cluster.transaction(holding=lambda other: members.beat(other, node_id=old.id, progress={})):
        electing = cluster.start(leadership.elect, node_id=new.id, scope="cluster", seen_term=1, replaces=verdict)

    assert electing.result() is None
    hold_term_in_transaction(connection, term=term)


def test_a_manager_that_was_marked_failed_cannot_elect_itself(connection):
    main, failed = register_node(connection), register_node(connection)
    term = elect_main(connection, main)
    leadership.mark_failed(connection, verdict=fall_silent(connection, failed), term=term)
    leadership.resign(connection, term=term)

    with pytest.raises(FenceRefused):
        leadership.elect(connection, node_id=failed.id, scope="cluster", seen_term=1)

    assert connection.execute("SELECT term, resigned FROM nodes_mainterm").fetchone() == (1, True)


def test_an_election_that_does_not_name_a_live_main_never_replaces_it(connection):
    main, other = register_node(connection), register_node(connection)
    elect_main(connection, main)

    assert leadership.elect(connection, node_id=other.id, scope="cluster", seen_term=1) is None


def test_a_replaced_main_marks_no_node_failed_and_ends_no_session(cluster, connection):
    old, new, worker = register_node(connection), register_node(connection), register_node(connection, "worker")
    old_term = elect_main(connection, old)
    leadership.resign(connection, term=old_term)
    leadership.elect(connection, node_id=new.id, scope="cluster", seen_term=1)
    session, verdict = cluster.open_as(worker), fall_silent(connection, worker)

    with pytest.raises(FenceRefused):
        leadership.mark_failed(connection, verdict=verdict, term=old_term)

    assert session.execute("SELECT 1").fetchone() == (1,)


def test_a_resignation_ends_the_term_and_is_possible_once(connection):
    term = elect_main(connection, register_node(connection))

    assert leadership.resign(connection, term=term) is True
    assert leadership.resign(connection, term=term) is False

    with pytest.raises(FenceRefused):
        hold_term_in_transaction(connection, term=term)


def test_sessions_of_daemons_see_commits_made_while_they_waited_for_locks(cluster, connection):
    """The fences need READ COMMITTED, so sessions set it whatever the default of the database is."""
    node = register_node(connection)

    session = cluster.open_as(node)

    assert session.execute("SHOW transaction_isolation").fetchone() == ("read committed",)
    assert session.execute("SHOW idle_in_transaction_session_timeout").fetchone() == (
        f"{TIMEOUT.total_seconds() / 2:g}s",
    )
