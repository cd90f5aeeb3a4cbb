"""Proves templates of tasks, the cleaner, listeners, statistics, and the synchronous execution of all tasks."""

import datetime as dt

import psycopg
import pytest

from nodes.tasks import kinds, listeners, statistics, verbs
from nodes.tasks.flushing import flush
from nodes.tasks.listeners import Listener
from nodes.tasks.models import ArchivedTask, Task, TaskEvent, TaskTemplate
from tests.support.cluster import register_node
from tests.support.task_kinds import NAMED
from tests.support.tasks import MainRecruiter, OwnSession, Worker

HOUR = dt.timedelta(hours=1)
HOURLY = {"urn": "hourly", "kind": "count", "schedule": {"cron": "0 * * * *"}}


@pytest.fixture(autouse=True)
def kinds_of_tests(settings):
    settings.CRAWLCTL_TASKS = (NAMED,)


@pytest.fixture
def main_recruiter(connection):
    # The built-in templates have no next moment, because they would make further tasks.
    TaskTemplate.objects.filter(is_built_in=True).update(next_at=None)
    return MainRecruiter(connection)


def put(**facts):
    return verbs.put_template(**{**HOURLY, **facts}, made_by="a test")


def pass_hours(number):
    """Move the next moment of each template that is not built in back by this number of hours."""
    for template in TaskTemplate.objects.filter(is_built_in=False):
        TaskTemplate.objects.filter(pk=template.pk).update(next_at=template.next_at - number * HOUR)


def made():
    return list(Task.objects.order_by("id").values_list("made_of_urn", "execution", "group"))


def test_a_due_template_makes_one_task_of_its_moment(main_recruiter):
    template = put(group="mail", tags=["a"])
    assert main_recruiter.make() == 0

    pass_hours(1)

    assert [main_recruiter.make() for _ in range(10)] == [1] + 9 * [0]
    template.refresh_from_db()
    task = Task.objects.get()
    assert made() == [("hourly", 1, "mail")]
    assert (task.scheduled_at, task.tags, task.attempts) == (template.last_moment, ["a"], 0)
    assert (template.last_task, template.executions) == (task.pk, 1)
    assert template.next_at == template.last_moment + HOUR


def test_each_moment_makes_a_task_and_counts_it(main_recruiter):
    put()
    for _ in range(2):
        pass_hours(1)
        main_recruiter.make()

    assert made() == [("hourly", 1, "generic"), ("hourly", 2, "generic")]


def test_one_task_makes_up_for_moments_without_a_main_manager(main_recruiter):
    put()
    pass_hours(48)

    assert [main_recruiter.make(), main_recruiter.make()] == [1, 0]
    assert Task.objects.get().scheduled_at == TaskTemplate.objects.get().next_at - HOUR


def test_a_moment_makes_no_second_task_under_another_main_manager(main_recruiter, other_connection):
    put()
    pass_hours(1)
    stale = TaskTemplate.objects.get().next_at
    main_recruiter.make()

    other_connection.execute("UPDATE nodes_mainterm SET resigned = true")
    from nodes.membership import leadership

    heir = register_node(other_connection, "manager")
    main_recruiter.term = leadership.elect(
        other_connection, node_id=heir.id, scope="cluster", seen_term=main_recruiter.term.term
    )
    main_recruiter.connection = other_connection
    assert main_recruiter.make() == 0

    TaskTemplate.objects.update(next_at=stale + HOUR)
    assert len(made()) == 1


def test_a_unique_template_skips_a_moment_while_its_task_waits(main_recruiter):
    put(unique=True)
    pass_hours(1)
    main_recruiter.make()
    pass_hours(2)

    assert main_recruiter.make() == 0
    assert len(made()) == 1
    verbs.cancel(Task.objects.get().pk, made_by="a test")
    pass_hours(2)
    assert main_recruiter.make() == 1


def test_the_cleaner_is_a_built_in_template(transactional_db):
    from importlib import import_module

    from django.apps import apps
    from django.db import connection as editor_connection

    TaskTemplate.objects.all().delete()
    migration = import_module("nodes.tasks.migrations.0001_version_0_1_0")
    migration.make_template(apps, type("Editor", (), {"connection": editor_connection}))

    with pytest.raises(verbs.TaskRefused):
        verbs.remove_template("clean-archive", made_by="a test")


def archive(number, *, age=dt.timedelta(0), **facts):
    """Store this many ended tasks. Each ran for two seconds, and ended as long ago as `age` says."""
    from nodes.database.clock import read_clock

    ended_at = read_clock() - age
    first = (ArchivedTask.objects.order_by("-id").values_list("id", flat=True).first() or 1000) + 1
    usual = {
        "kind": "count",
        "retry_policy": {},
        "created_by": "a test",
        "why": "done",
        "archived_at": ended_at,
        "last_due_at": ended_at - dt.timedelta(seconds=5),
        "last_started_at": ended_at - dt.timedelta(seconds=2),
        "last_ended_at": ended_at,
    }
    ArchivedTask.objects.bulk_create(ArchivedTask(id=first + place, **{**usual, **facts}) for place in range(number))


def test_the_cleaner_deletes_old_tasks_in_chunks(main_recruiter, connection, dsn, monkeypatch):
    monkeypatch.setattr("nodes.tasks.cleaning._CHUNK", 2)
    archive(5, age=dt.timedelta(days=6))
    archive(3, age=dt.timedelta(days=4))
    worker = Worker(connection, dsn)
    task = verbs.create(kind="clean_archive", made_by="a test")
    main_recruiter.assign()
    worker.work()

    assert ArchivedTask.objects.get(pk=task.pk).result == {"deleted": 5}
    assert ArchivedTask.objects.count() == 3 + 1


def test_the_age_of_deleted_tasks_can_be_chosen(main_recruiter, connection, dsn):
    archive(3, age=dt.timedelta(minutes=2))
    worker = Worker(connection, dsn)
    verbs.create(kind="clean_archive", arguments={"clean_after": 60}, made_by="a test")
    main_recruiter.assign()
    worker.work()

    assert ArchivedTask.objects.count() == 1


def test_listeners_receive_each_event_once_and_in_order(main_recruiter, connection, dsn):
    worker, heard = Worker(connection, dsn), []
    verbs.create(kind="fail", retry_policy={"policy": "times", "times": 1, "seconds": 0}, made_by="a test")
    for _ in range(2):
        main_recruiter.assign()
        worker.work()
    listener = Listener(name="l", receive=lambda _connection, event: heard.append((event.attempt, event.kind)))

    assert [listeners.deliver(connection, (listener,)), listeners.deliver(connection, (listener,))] == [5, 0]
    assert heard == [(1, "started"), (1, "ended"), (2, "started"), (2, "ended"), (2, "failed_finally")]


@pytest.mark.parametrize(
    "error", [ValueError(), psycopg.errors.QueryCanceled(), psycopg.errors.DeadlockDetected()], ids=repr
)
def test_a_failing_listener_stops_no_other_listener(main_recruiter, connection, error):
    TaskEvent.objects.create(task=1, attempt=1, kind="started")
    heard = []

    def fail(listening, _event):
        listening.execute("DELETE FROM tasks_taskevent")
        raise error

    failing = Listener(name="failing", receive=fail)
    other = Listener(name="other", receive=lambda _connection, event: heard.append(event.task))

    listeners.deliver(connection, (failing, other))

    assert heard == [1]
    assert not TaskEvent.objects.exists()


def test_a_process_that_delivers_events_delays_no_other_process(main_recruiter, connection, other_connection):
    TaskEvent.objects.create(task=1, attempt=1, kind="started")
    heard = []

    def meanwhile(_connection, event):
        heard.append(listeners.deliver(other_connection, ()))

    assert listeners.deliver(connection, (Listener(name="l", receive=meanwhile),)) == 1
    assert heard == [0]


def test_listeners_are_installed_like_kinds_of_tasks(settings):
    settings.CRAWLCTL_TASKS = (f"{__name__}:LISTENER",)

    assert kinds.listeners() == (LISTENER,)


LISTENER = Listener(name="installed", receive=print)


def test_statistics_count_the_tasks_of_a_group_or_of_a_moment(transactional_db):
    from nodes.database.clock import read_clock

    now = read_clock()
    for group, age in (("generic", 1), ("generic", 2), ("mail", 1), ("mail", 60 * 30), ("mail", -60)):
        verbs.create(kind="count", group=group, at=now - dt.timedelta(minutes=age), made_by="a test")
    archive(3)
    archive(2, age=dt.timedelta(minutes=30))

    of_all, of_mail = statistics.read_statistics(), statistics.read_statistics(group="mail")
    assert (of_all.queued, of_all.postponed, of_all.zombies, of_all.throughput) == (3, 1, 1, 3)
    assert (of_mail.queued, of_mail.postponed, of_mail.zombies, of_mail.throughput) == (1, 1, 1, 0)
    assert (of_all.latency, of_all.execution_time) == (pytest.approx(3), pytest.approx(2))
    later = statistics.read_statistics(at=now + dt.timedelta(hours=2))
    assert (later.queued, later.postponed, later.throughput) == (4, 0, 0)


def test_statistics_name_slow_tasks_and_tasks_with_many_attempts(transactional_db):
    archive(3)
    archive(2, last_started_at=dt.datetime.now(dt.UTC) - dt.timedelta(hours=1))
    archive(4, attempts=2)

    assert len(statistics.slow_tasks()) == 2
    assert len(statistics.tasks_often_tried(limit=3)) == 3


def test_metrics_count_tasks_by_group_and_state(main_recruiter, connection, dsn):
    Worker(connection, dsn, work_on="mail")
    verbs.create(kind="count", group="mail", made_by="a test")
    verbs.create(kind="count", at=dt.datetime.now(dt.UTC) + HOUR, made_by="a test")
    archive(2, why="cancelled")

    assert statistics.count_scheduled() == {("mail", "queued"): 1, ("generic", "postponed"): 1}
    assert statistics.count_workers() == {("mail",): 1}
    assert statistics.count_ended() == {("generic", "cancelled"): 2}


def test_a_flush_executes_every_task_once_and_reports_each_by_its_number(dsn, tmp_path):
    notes = tmp_path / "notes"
    later = verbs.create(
        kind="note", arguments={"file": str(notes)}, at=dt.datetime.now(dt.UTC) + HOUR, made_by="a test"
    )
    failing = verbs.create(kind="fail", retry_policy={"policy": "forever"}, made_by="a test")

    report = flush(lambda _purpose: OwnSession(dsn))

    assert list(report) == [failing.pk, later.pk]
    assert (report[later.pk].why, report[failing.pk].why, report[failing.pk].exception) == ("done", "", "Broken")
    assert report.has_failure
    assert Task.objects.get().pk == failing.pk
