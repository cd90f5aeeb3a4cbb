"""Proves that an idle node sends only heartbeats, and is notified of new work by their answers."""

import asyncio
import contextlib
import threading
from uuid import uuid4

import psycopg
import pytest

from jobs.loops.manager import Manager
from jobs.loops.worker import Worker
from jobs.models import ArchiveFile, Batch
from jobs.settings.archives import ARCHIVE_ROOT
from nodes.database.connections import ConnectionWithTimeouts
from nodes.life.identity import NodeIdentity
from nodes.lifecycle import CLUSTER_SCOPE, NodeKind
from nodes.membership import members
from nodes.settings.node_settings import HEARTBEAT_INTERVAL
from nodes.settings.running import current
from tests.integration.test_archive_rows import set_settings
from tests.support.cluster import NOON, elect_main, fall_silent, register_node, seconds
from tests.support.factories import make_documents, make_lane, make_running_job
from tests.support.waiting import wait_until

BEAT = 0.1
DAY = seconds(86_400)
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE starts_with(application_name, %s)"


@pytest.fixture(autouse=True)
def fast_beats(settings):
    values = {HEARTBEAT_INTERVAL.path: seconds(BEAT)}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}


@pytest.fixture
def statements(monkeypatch):
    """Return a list that receives each statement of nodes in this process."""
    sent = []
    execute = psycopg.Cursor.execute

    def counted(self, query, *args, **options):
        if isinstance(self.connection, ConnectionWithTimeouts):
            sent.append(str(query))
        return execute(self, query, *args, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", counted)
    return sent


def identity_here(kind="manager", *, timeout=DAY):
    return NodeIdentity.of_this_process(kind=NodeKind(kind), scope=CLUSTER_SCOPE, name="mine", timeout=timeout)


def running_manager(dsn, identity):
    """Run a manager in a thread until the block ends."""
    stop = threading.Event()
    manager = Manager(dsn=dsn, identity=identity, settings=current())
    return _running(threading.Thread(target=manager.run, kwargs={"should_stop": stop.is_set}), stop.set)


def running_worker(dsn, identity):
    """Run a worker in a thread until the block ends."""
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def run():
        worker = Worker(dsn=dsn, identity=identity, settings=current(), stop=stop)
        await worker.run(force_stop=asyncio.Event())

    def live():
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(run())

    return _running(threading.Thread(target=live), lambda: loop.call_soon_threadsafe(stop.set))


@contextlib.contextmanager
def _running(thread, stop):
    thread.start()
    try:
        yield
    finally:
        stop()
        thread.join(30)
        assert not thread.is_alive()


def make_archive_file(**facts):
    """Store the row of a complete archive file."""
    usual = {"job_id": 1, "node_id": uuid4(), "root": "/", "path": "a.warc", "format": "warc", "sha256": "0" * 64}
    return ArchiveFile.objects.create(**{**usual, **facts}, state="complete", opened_at=NOON)


def beats_of(connection, node):
    row = connection.execute("SELECT beats FROM nodes_node WHERE id = %s", [node.id]).fetchone()
    return row[0] if row else 0


def let_it_beat(connection, node, *, times=20):
    """Wait until a node has sent this number of further heartbeats."""
    before = beats_of(connection, node)
    wait_until(lambda: beats_of(connection, node) >= before + times)


def test_an_idle_worker_sends_only_heartbeats_on_two_connections(dsn, connection, statements):
    worker = identity_here("worker", timeout=seconds(10))
    # Without stores, nothing is left to do for a file that has its checksum.
    make_archive_file(host=worker.host)
    with running_worker(dsn, worker):
        let_it_beat(connection, worker, times=10)
        statements.clear()

        let_it_beat(connection, worker)

        others = [statement for statement in statements if "UPDATE nodes_node SET heartbeat_at" not in statement]
        assert others == []
        assert connection.execute(SESSIONS, [str(worker.id)]).fetchone() == (2,)


def test_a_worker_gives_a_complete_file_its_checksum(dsn, connection, tmp_path, settings):
    set_settings(settings, {ARCHIVE_ROOT: str(tmp_path)})
    worker = identity_here("worker", timeout=seconds(10))
    with running_worker(dsn, worker):
        let_it_beat(connection, worker, times=10)
        (tmp_path / "a.warc").write_bytes(b"records")
        file = make_archive_file(host=worker.host, root=str(tmp_path), path="a.warc", length=7, sha256="")

        wait_until(lambda: ArchiveFile.objects.exclude(sha256="").filter(pk=file.pk).exists(), within=10)


def test_an_idle_manager_sends_only_heartbeats_on_two_connections(dsn, connection, statements):
    main, manager = register_node(connection, timeout=seconds(600)), identity_here(timeout=seconds(10))
    elect_main(connection, main)
    with running_manager(dsn, manager):
        let_it_beat(connection, manager, times=10)
        statements.clear()

        let_it_beat(connection, manager)

        others = [statement for statement in statements if "UPDATE nodes_node SET heartbeat_at" not in statement]
        assert others == []
        assert connection.execute(SESSIONS, [str(manager.id)]).fetchone() == (2,)


def test_an_idle_manager_takes_over_from_a_silent_main_manager(dsn, connection):
    main, manager = register_node(connection, timeout=seconds(2)), identity_here(timeout=seconds(2))
    elect_main(connection, main)
    with running_manager(dsn, manager):
        let_it_beat(connection, manager, times=10)
        fall_silent(connection, main)

        wait_until(lambda: main_of(connection) == manager.id, within=10)


def test_an_idle_manager_takes_over_immediately_after_a_resignation(dsn, connection):
    main, manager = register_node(connection, timeout=seconds(600)), identity_here(timeout=seconds(600))
    term = elect_main(connection, main)
    with running_manager(dsn, manager):
        let_it_beat(connection, manager, times=5)
        assert members.stop(connection, node_id=main.id, reason="asked to stop")

        wait_until(lambda: main_of(connection) == manager.id, within=5)
    assert term.main_id == main.id


def test_an_idle_manager_starts_with_a_new_group_without_a_notification(dsn, connection):
    main, manager = register_node(connection, timeout=seconds(600)), identity_here(timeout=seconds(3))
    elect_main(connection, main)
    with running_manager(dsn, manager):
        let_it_beat(connection, manager, times=5)
        register_node(connection, "worker", timeout=seconds(600))
        running = make_running_job(manager)
        make_documents(make_lane(running.seed), 1)

        wait_until(lambda: Batch.objects.filter(manager_id=manager.id).exists(), within=5)


def main_of(connection):
    row = connection.execute("SELECT main_id FROM nodes_mainterm WHERE scope = 'cluster' AND NOT resigned").fetchone()
    return row[0] if row else None
