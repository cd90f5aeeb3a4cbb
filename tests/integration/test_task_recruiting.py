"""Proves that due tasks are assigned, executed once, retried by their policies, and archived with the reason."""

import datetime as dt

import psycopg
import pytest

from nodes.errors import Invalid
from nodes.membership.fences import FenceRefused
from nodes.tasks import roster, verbs
from nodes.tasks.kinds import Kind
from nodes.tasks.models import ArchivedTask, Task, TaskWorker
from nodes.tasks.retrying import MOST_CRASHES
from tests.support.cluster import elect_main, register_node
from tests.support.task_kinds import NAMED
from tests.support.tasks import MainRecruiter, Worker, events_of, lines_of, where
from tests.support.waiting import wait_until

NEVER_SILENT = dt.timedelta(hours=1)
AT_ONCE = dt.timedelta(0)
TWICE = {"policy": "times", "times": 1, "seconds": 0}


@pytest.fixture(autouse=True)
def kinds(settings):
    settings.CRAWLCTL_TASKS = (NAMED,)


@pytest.fixture
def main_recruiter(connection):
    return MainRecruiter(connection)


@pytest.fixture
def worker(connection, dsn):
    return Worker(connection, dsn)


def schedule(kind="note", **facts):
    return verbs.create(kind=kind, made_by="a test", **facts)


def test_a_due_task_is_assigned_executed_and_archived(main_recruiter, worker, tmp_path):
    task = schedule(arguments={"file": str(tmp_path / "notes"), "result": [1, "two"]}, tags=["a", "a"], urn="first")

    assert main_recruiter.assign() == 1
    assert worker.work()

    archived = ArchivedTask.objects.get(pk=task.pk)
    assert where(task.pk) == ["archived"]
    assert (archived.why, archived.result, archived.attempts) == ("done", [1, "two"], 1)
    assert (archived.group, archived.tags, archived.urn) == ("generic", ["a"], "first")
    assert archived.last_due_at <= archived.last_started_at <= archived.last_ended_at
    assert events_of(task.pk) == [(1, "started"), (1, "ended")]
    assert len(lines_of(tmp_path / "notes")) == 2


def test_a_task_is_not_assigned_before_its_date(main_recruiter, worker):
    schedule(kind="exit", at=dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))

    assert main_recruiter.assign() == 0


def test_the_oldest_due_task_of_a_group_is_assigned_first(main_recruiter, worker):
    later = schedule(kind="exit", at=dt.datetime.now(dt.UTC) - dt.timedelta(minutes=1))
    first = schedule(kind="exit", at=dt.datetime.now(dt.UTC) - dt.timedelta(minutes=2))

    main_recruiter.assign()

    assert worker.assigned() == first
    assert Task.objects.get(pk=later.pk).worker_id is None


def test_workers_get_tasks_of_their_groups(main_recruiter, worker, connection, dsn):
    mailer = Worker(connection, dsn, work_on="mail")
    export, mail = schedule(kind="exit", group="export"), schedule(kind="exit", group="mail")

    assert main_recruiter.assign() == 2
    assert (worker.assigned(), mailer.assigned()) == (export, mail)


def test_a_busy_or_leaving_worker_gets_no_task(main_recruiter, worker, connection, dsn):
    leaving = Worker(connection, dsn)
    roster.begin_leaving(connection, worker=leaving.id)
    schedule(kind="exit")
    schedule(kind="exit")

    assert [main_recruiter.assign(), main_recruiter.assign()] == [1, 0]
    assert leaving.assigned() is None


def test_a_replaced_main_manager_assigns_nothing(main_recruiter, worker, other_connection):
    schedule(kind="exit")
    other_connection.execute("UPDATE nodes_mainterm SET term = term + 1")

    with pytest.raises(FenceRefused):
        main_recruiter.assign()

    assert worker.assigned() is None


def test_a_second_delivery_of_a_task_executes_nothing(main_recruiter, worker, tmp_path):
    task = schedule(arguments={"file": str(tmp_path / "notes")})
    main_recruiter.assign()
    epoch = worker.assigned().epoch
    executor = worker.executor()

    assert executor.execute(task.pk, epoch)
    assert not executor.execute(task.pk, epoch)
    assert len(lines_of(tmp_path / "notes")) == 2


def test_a_forged_delivery_changes_nothing(main_recruiter, worker, connection, dsn):
    task = schedule(kind="fail")
    main_recruiter.assign()
    epoch = worker.assigned().epoch
    before = Task.objects.filter(pk=task.pk).values().get()

    assert not worker.executor().execute(task.pk, epoch + 1)
    assert not worker.executor().execute(task.pk + 1, epoch)
    assert not Worker(connection, dsn).executor().execute(task.pk, epoch)
    assert Task.objects.filter(pk=task.pk).values().get() == before


def test_a_failed_task_is_retried_and_then_archived_with_the_reason(main_recruiter, worker, tmp_path):
    task = schedule(kind="fail", arguments={"file": str(tmp_path / "told")}, retry_policy=TWICE)

    for _ in range(2):
        main_recruiter.assign()
        assert worker.work()

    archived = ArchivedTask.objects.get(pk=task.pk)
    assert main_recruiter.assign() == 0
    assert (archived.why, archived.attempts, archived.last_class) == ("tried-too-many-times", 2, "Broken")
    assert archived.last_message == "on purpose"
    assert "Broken: on purpose" in archived.last_trace
    assert events_of(task.pk) == [(1, "started"), (1, "ended"), (2, "started"), (2, "ended"), (2, "failed_finally")]
    assert lines_of(tmp_path / "told") == [
        {"retry": 0, "is_last": False, "last": None},
        {"retry": 1, "is_last": True, "last": {"class": "Broken", "message": "on purpose", "crashed": False}},
    ]


@pytest.mark.parametrize("text", ["a\0b", "a\udcffb"])
def test_arguments_that_cannot_be_stored_are_refused(text, db):
    with pytest.raises(Invalid, match="not possible"):
        schedule(arguments={"file": text})


def test_a_failure_without_readable_text_is_stored(main_recruiter, worker, monkeypatch):
    def fail(_context, _arguments):
        raise OSError("cannot read a\udcffb\0")

    monkeypatch.setattr("nodes.tasks.execution.kinds.find", lambda _name: Kind(name="fail", title="", run=fail))
    task = schedule(kind="fail")
    main_recruiter.assign()
    worker.work()

    assert ArchivedTask.objects.get(pk=task.pk).last_message == "cannot read a?b?"


def test_progress_that_cannot_be_stored_does_not_end_heartbeats(main_recruiter, connection, dsn, monkeypatch):
    worker, seen = Worker(connection, dsn, beat=0.02), []

    def report(context, _arguments):
        context.report({"counted": 1})
        for progress in ({"counted": {2}}, {"counted": float("nan")}):
            with pytest.raises((TypeError, ValueError)):
                context.report(progress)
        wait_until(lambda: Task.objects.get().progress)
        seen.append(Task.objects.get().progress)

    monkeypatch.setattr("nodes.tasks.execution.kinds.find", lambda _name: Kind(name="count", title="", run=report))
    schedule(kind="count")
    main_recruiter.assign()
    worker.work()

    assert seen == [{"counted": 1}]


def test_a_failed_task_without_a_policy_is_archived(main_recruiter, worker):
    task = schedule(kind="fail")
    main_recruiter.assign()
    worker.work()

    assert ArchivedTask.objects.get(pk=task.pk).why == "not-scheduled-by-retry-policy"


def test_a_task_with_an_exception_outside_of_its_policy_is_archived(main_recruiter, worker):
    task = schedule(kind="fail", retry_policy={"policy": "filtered", "exceptions": ["OSError"], "then": TWICE})
    main_recruiter.assign()
    worker.work()

    assert ArchivedTask.objects.get(pk=task.pk).why == "non-retriable-exception"


def test_a_task_whose_kind_is_not_installed_follows_its_policy(main_recruiter, worker, settings):
    task = schedule(kind="fail", retry_policy=TWICE)
    settings.CRAWLCTL_TASKS = ()
    main_recruiter.assign()
    worker.work()

    waiting = Task.objects.get(pk=task.pk)
    assert (waiting.attempts, waiting.last_class) == (1, "UnknownKind")
    assert "'fail'" in waiting.last_message


@pytest.mark.parametrize("result", ["a\0b", float("nan"), {1, 2}, ["a\udcffb"]])
def test_a_task_whose_result_cannot_be_stored_counts_as_failed(main_recruiter, worker, monkeypatch, result, tmp_path):
    task = schedule(arguments={"file": str(tmp_path / "notes")})
    monkeypatch.setattr("tests.support.task_kinds.time.sleep", lambda _seconds: None)
    from tests.support import task_kinds

    note = task_kinds.KINDS[0]
    broken = type(note)(name="note", title="", run=lambda _context, _arguments: result)
    monkeypatch.setattr("nodes.tasks.execution.kinds.find", lambda _name: broken)
    main_recruiter.assign()
    worker.work()

    assert ArchivedTask.objects.get(pk=task.pk).last_class in {"ValueError", "TypeError"}


def test_a_silent_worker_is_retired_and_its_task_goes_to_another(main_recruiter, worker, connection, dsn, tmp_path):
    task = schedule(arguments={"file": str(tmp_path / "notes")})
    main_recruiter.assign()

    assert main_recruiter.retire(AT_ONCE) == 1
    assert not TaskWorker.objects.filter(pk=worker.id).exists()

    other = Worker(connection, dsn)
    main_recruiter.assign()
    assert other.work()
    assert ArchivedTask.objects.get(pk=task.pk).attempts == 1


def test_the_running_task_of_a_retired_worker_follows_its_policy(main_recruiter, worker, connection, dsn):
    task = schedule(kind="fail", retry_policy=TWICE)
    main_recruiter.assign()
    connection.execute("UPDATE tasks_task SET started_at = clock_timestamp(), attempts = 1")

    main_recruiter.retire(AT_ONCE)

    waiting = Task.objects.get(pk=task.pk)
    assert (waiting.last_crashed, waiting.last_class, waiting.last_ended_at) == (True, "WorkerLost", None)
    assert waiting.last_started_at is not None
    assert waiting.started_at is None


def test_a_worker_with_a_heartbeat_is_not_retired(main_recruiter, worker):
    assert main_recruiter.retire(NEVER_SILENT) == 0


def test_a_worker_whose_process_ended_on_this_machine_is_retired(main_recruiter, connection, dsn):
    from nodes.life.identity import NodeIdentity, NodeKind

    here = NodeIdentity.of_this_process(
        kind=NodeKind.WORKER, scope="cluster", name="w", timeout=dt.timedelta(seconds=9)
    )
    facts = {"host": here.host, "boot_id": here.boot_id, "pid_namespace": here.pid_namespace}
    gone = Worker(connection, dsn, **facts, pid=here.pid, process_start=here.process_start + 1)
    alive = Worker(connection, dsn, **facts, pid=here.pid, process_start=here.process_start)

    assert main_recruiter.retire(NEVER_SILENT) == 1
    assert list(TaskWorker.objects.values_list("pk", flat=True)) == [alive.id]
    assert gone.id != alive.id


def test_a_late_end_of_a_task_changes_nothing_and_is_counted(
    main_recruiter, connection, other_connection, dsn, tmp_path, monkeypatch
):
    task = schedule(arguments={"file": str(tmp_path / "notes"), "result": "late"}, retry_policy=TWICE)
    late, other = Worker(connection, dsn, name="late"), None
    main_recruiter.assign()

    def lose_the_worker(_seconds):
        nonlocal other
        MainRecruiter.retire(main_recruiter, AT_ONCE)
        other = Worker(other_connection, dsn, name="other")
        main_recruiter.assign()

    monkeypatch.setattr("tests.support.task_kinds.time.sleep", lose_the_worker)
    assert late.work()

    waiting = Task.objects.get(pk=task.pk)
    assert (waiting.worker_id, waiting.late_endings, waiting.started_at) == (other.id, 1, None)
    monkeypatch.setattr("tests.support.task_kinds.time.sleep", lambda _seconds: None)
    assert other.work()
    assert ArchivedTask.objects.get(pk=task.pk).late_endings == 1


def test_a_task_that_kills_several_workers_is_archived(main_recruiter, connection, dsn):
    task = schedule(kind="exit", retry_policy={"policy": "forever", "seconds": 1})
    for _ in range(MOST_CRASHES):
        Worker(connection, dsn)
        connection.execute("UPDATE tasks_task SET scheduled_at = clock_timestamp()")
        assert main_recruiter.assign() == 1
        connection.execute("UPDATE tasks_task SET started_at = clock_timestamp(), attempts = attempts + 1")
        main_recruiter.retire(AT_ONCE)

    archived = ArchivedTask.objects.get(pk=task.pk)
    assert (archived.why, archived.crashes, archived.last_crashed) == ("tried-too-many-times", MOST_CRASHES, True)


def test_a_cancelled_task_that_waits_is_archived(main_recruiter, worker):
    task = schedule(kind="exit")

    assert verbs.cancel(task.pk, made_by="a test")
    assert ArchivedTask.objects.get(pk=task.pk).why == "cancelled"
    with pytest.raises(verbs.TaskRefused):
        verbs.cancel(task.pk, made_by="a test")


def test_a_running_task_that_is_cancelled_is_requested_to_end(main_recruiter, connection, dsn, monkeypatch):
    worker = Worker(connection, dsn, beat=0.05)
    task = schedule(kind="count")
    main_recruiter.assign()
    real_sleep = __import__("time").sleep

    def cancel(seconds):
        Task.objects.filter(pk=task.pk).update(cancelled_by="a test")
        real_sleep(seconds)

    monkeypatch.setattr("tests.support.task_kinds.time.sleep", cancel)
    worker.work()

    archived = ArchivedTask.objects.get(pk=task.pk)
    assert archived.why == "cancelled"
    assert archived.result < 1000


def test_a_running_task_shows_its_progress_and_its_worker_lives(main_recruiter, connection, dsn, monkeypatch):
    worker = Worker(connection, dsn, beat=0.02)
    task = schedule(kind="count")
    main_recruiter.assign()
    seen_before = TaskWorker.objects.get(pk=worker.id).last_seen_at
    progress, real_sleep = [], __import__("time").sleep

    def look(_seconds):
        real_sleep(0.01)
        row = Task.objects.get(pk=task.pk)
        if row.progress and TaskWorker.objects.get(pk=worker.id).last_seen_at > seen_before:
            progress.append(row.progress)
            Task.objects.filter(pk=task.pk).update(cancelled_by="a test")

    monkeypatch.setattr("tests.support.task_kinds.time.sleep", look)
    worker.work()

    assert progress[0]["counted"] >= 0


def test_an_archived_task_is_rescheduled_without_its_attempts(main_recruiter, worker):
    task = schedule(kind="fail", tags=["a"], retry_policy={"policy": "never"})
    main_recruiter.assign()
    worker.work()

    again = verbs.reschedule(task.pk, made_by="another")

    assert (again.attempts, again.tags, again.made_of_urn) == (0, ["a"], str(task.pk))
    assert where(task.pk) == ["archived"]
    with pytest.raises(verbs.TaskRefused):
        verbs.reschedule(again.pk, made_by="another")


def test_the_database_refuses_a_second_task_of_a_worker(main_recruiter, worker, connection):
    schedule(kind="exit")
    schedule(kind="exit")
    main_recruiter.assign()

    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute(
            "UPDATE tasks_task SET worker_id = %s, assigned_at = now() WHERE worker_id IS NULL", (worker.id,)
        )


def test_two_main_managers_assign_a_task_once(connection, other_connection, dsn):
    first = MainRecruiter(connection)
    Worker(connection, dsn)
    schedule(kind="exit")
    heir = register_node(other_connection, "manager", scope="another")
    second = elect_main(other_connection, heir)
    from nodes.tasks import recruiter

    assert first.assign() + recruiter.assign_due_tasks(other_connection, term=second) == 1
