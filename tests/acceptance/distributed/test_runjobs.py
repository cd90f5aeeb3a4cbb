"""Proves that `manage.py runjobs` runs distributed jobs in separate processes."""

import signal
import time

import psycopg
import pytest
from psycopg import sql

from tests.support.distributed_jobs import ITEMS, conflicts_in, entries_of
from tests.support.processes import template_database


@pytest.fixture
def start(start_jobs, store):
    """Start a process that uses the store."""

    def start(*arguments, **facts):
        return start_jobs(*arguments, **{**store.environment(), **facts})

    return start


def wait_for(condition, *, of):
    deadline = time.monotonic() + 60
    while not condition():
        ended = [process for process in of if process.has_ended]
        assert not ended, ended[0].err[-3000:]
        assert time.monotonic() < deadline, "\n".join(process.err[-1500:] for process in of)
        time.sleep(0.05)


def wait_until_shared(diary, *processes):
    """Wait until exactly these processes have run all items since the call, and each has run some items."""

    def shared():
        since = time.monotonic()
        deadline = since + 2
        while time.monotonic() < deadline:
            entries = entries_of(diary, since=since)
            if {entry.item for entry in entries} == set(ITEMS):
                return {entry.pid for entry in entries} == {process.pid for process in processes}
            time.sleep(0.05)
        return False

    wait_for(shared, of=processes)


def replace_database(database):
    """Replace this database by an empty one."""
    with psycopg.connect(database.dsn, dbname="postgres", autocommit=True) as connection:
        name, template = sql.Identifier(database.name), sql.Identifier(template_database().name)
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(name, template))


def test_processes_share_the_items_and_the_last_one_runs_all(start, diary):
    one, other = start(), start()
    wait_until_shared(diary, one, other)

    one.kill()
    wait_until_shared(diary, other)

    other.send(signal.SIGTERM)
    assert other.wait() == 0
    assert "are closed" in other.err
    assert conflicts_in(diary) == []


def test_managers_also_run_distributed_jobs_if_configured(start, machine, diary):
    one, other = (start("--jobs", command="runmanager") for _ in range(2))
    wait_until_shared(diary, one, other)
    ours = "SELECT job FROM nodes_distributedjobonnode WHERE starts_with(job, 'crawlctl.')"
    wait_for(lambda: machine.database.rows(ours), of=[one, other])

    one.send(signal.SIGTERM)
    assert one.wait() == 0
    wait_until_shared(diary, other)
    assert conflicts_in(diary) == []


def test_the_database_lists_running_jobs_and_its_switch_stops_them(start, machine, diary):
    one, other = (start("--cluster", "ours") for _ in range(2))
    wait_until_shared(diary, one, other)

    def are_listed():
        query = "SELECT items FROM nodes_distributedjobonnode WHERE (cluster, job) = ('ours', 'diary') AND runs > 0"
        rows = machine.database.rows(query)
        return sorted(item for (items,) in rows for item in items) == sorted(ITEMS)

    wait_for(are_listed, of=[one, other])
    machine.database.rows(
        "INSERT INTO nodes_distributedjobswitch VALUES ('ours', 'diary', true, 'ann', now()) RETURNING job"
    )

    def is_quiet():
        return not entries_of(diary, since=time.monotonic() - 1)

    wait_for(is_quiet, of=[one, other])
    machine.database.rows("UPDATE nodes_distributedjobswitch SET is_disabled = false RETURNING job")
    wait_until_shared(diary, one, other)
    assert conflicts_in(diary) == []


@pytest.mark.parametrize("store", ["ZOOKEEPER"], indirect=True)
def test_an_unreachable_store_is_retried_and_then_the_command_ends_with_1(start):
    process = start("--start-within", 5, CRAWLCTL_ZOOKEEPER="127.0.0.1:1")

    assert process.wait() == 1
    assert "cannot start yet: ZooKeeper at 127.0.0.1:1 did not answer" in process.err
    assert "The distributed jobs end: ZooKeeper at 127.0.0.1:1 did not answer" in process.err


@pytest.mark.parametrize(
    ("arguments", "jobs", "words"),
    [
        (
            (),
            "tests.support.distributed_jobs:Nothing",
            "the distributed job tests.support.distributed_jobs:Nothing cannot be loaded",
        ),
        (
            (),
            "tests.support.distributed_jobs",
            "'tests.support.distributed_jobs' names no distributed job: write it as package.module:OBJECT",
        ),
        ((), "tests.support.distributed_jobs:ITEMS", "is a str, not a DistributedJob"),
        (("--strategy", "best"), "tests.support.distributed_jobs:Diary", "there is no strategy 'best'"),
        (("--node", "a/b"), "tests.support.distributed_jobs:Diary", "the node 'a/b' is invalid"),
        (
            ("--stop-within", "0"),
            "tests.support.distributed_jobs:Diary",
            "--stop-within is 0: write a number of seconds greater than 0",
        ),
    ],
    ids=["no such job", "no object", "no job", "no such strategy", "bad node", "no time"],
)
def test_an_invalid_value_ends_the_command_with_2_and_a_reason(start, arguments, jobs, words):
    process = start(*arguments, jobs=jobs)

    assert process.wait() == 2
    assert words in process.err
    assert "Traceback" not in process.err


def test_a_process_ends_when_its_database_was_replaced(start_jobs, machine, diary):
    process = start_jobs(CRAWLCTL_COORDINATION="DATABASE")
    wait_until_shared(diary, process)

    replace_database(machine.database)

    assert process.wait() == 1
    assert "went back in time, or was replaced by another one" in process.err
    assert "Traceback" not in process.err
