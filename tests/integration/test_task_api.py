"""Proves the API and the command of background tasks: roles, errors, idempotency keys, ETags and changes."""

import io

import pytest
from django.core.management import CommandError, call_command

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from nodes.models import NodeEvent
from nodes.tasks import verbs
from nodes.tasks.models import ArchivedTask, Task, TaskTemplate
from tests.support.api import assert_problem, client_of
from tests.support.task_kinds import NAMED
from tests.support.tasks import MainRecruiter, Worker

TASKS, ARCHIVED, TEMPLATES = "/api/v1/tasks/", "/api/v1/archived-tasks/", "/api/v1/task-templates/"
TASK = {"kind": "count", "group": "mail", "tags": ["a", "b"], "urn": "first"}
NIGHTLY = {"urn": "nightly", "kind": "count", "schedule": {"cron": "0 3 * * *"}}


@pytest.fixture(autouse=True)
def kinds(settings):
    settings.CRAWLCTL_TASKS = (NAMED,)


@pytest.fixture
def operator(db):
    return client_of(OPERATOR)


def archive(client, number=1, **facts):
    """Create and cancel this number of tasks. Return their numbers."""
    made = [client.post(TASKS, {**TASK, **facts}).json()["id"] for _ in range(number)]
    for task in made:
        client.post(f"{TASKS}{task}/cancel/")
    return made


def test_an_operator_schedules_a_task(operator):
    answer = operator.post(
        TASKS, {**TASK, "at": "2030-01-01T00:00:00Z", "retry_policy": {"policy": "times", "times": 2}}
    )

    made = answer.json()
    assert answer.status_code == 201
    assert answer["Location"].endswith(f"{TASKS}{made['id']}/")
    assert {name: made[name] for name in TASK} == TASK
    assert (made["state"], made["scheduled_at"], made["created_by"]) == (
        "waiting",
        "2030-01-01T00:00:00Z",
        "a operator",
    )
    assert operator.get(answer["Location"]).json() == made


def test_a_task_is_not_cancelled_by_a_body_with_unknown_fields(operator):
    task = operator.post(TASKS, TASK).json()["id"]

    assert_problem(operator.post(f"{TASKS}{task}/cancel/", {"reason": "late"}), 400, "invalid", fields=["reason"])

    assert operator.get(f"{TASKS}{task}/").json()["state"] == "waiting"


def test_many_scheduled_tasks_are_cancelled_by_a_filter(operator):
    for facts in ({"group": "mail"}, {"group": "mail"}, {"group": "other"}):
        operator.post(TASKS, {**TASK, **facts})

    answer = operator.post(f"{TASKS}cancel/", {"group": "mail", "state": "waiting", "tag": "a"})

    assert (answer.status_code, answer.json()) == (200, {"cancelled": 2})
    assert [task.group for task in Task.objects.all()] == ["other"]
    assert set(ArchivedTask.objects.values_list("why", flat=True)) == {"cancelled"}


@pytest.mark.parametrize(("body", "field"), [({}, "request"), ({"state": "asleep"}, "state"), ({"why": "done"}, "why")])
def test_an_invalid_filter_cancels_no_task(operator, body, field):
    operator.post(TASKS, TASK)

    assert_problem(operator.post(f"{TASKS}cancel/", body), 400, "invalid", fields=[field])
    assert Task.objects.count() == 1


def test_the_command_cancels_many_tasks_by_a_filter(transactional_db):
    for group in ("mail", "other"):
        verbs.create(kind="count", group=group, made_by="a test")

    with pytest.raises(CommandError) as refused:
        output_of_task("cancel-all")
    output = output_of_task("cancel-all", "--group", "mail")

    assert refused.value.returncode == 2
    assert output == "Tasks cancelled: 1.\n"
    assert Task.objects.get().group == "other"


@pytest.mark.parametrize("group", [None, ""])
def test_a_task_without_a_group_belongs_to_the_group_generic(operator, group):
    assert operator.post(TASKS, {"kind": "count", "group": group}).json()["group"] == "generic"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"kind": "os.system"}, "kind"),
        ({"kind": ["count"]}, "kind"),
        ({"kind": "note"}, "arguments.file"),
        ({"arguments": {"seconds": 1}}, "arguments.seconds"),
        ({"arguments": [1]}, "arguments"),
        ({"group": ["mail"]}, "group"),
        ({"group": "*"}, "group"),
        ({"group": "a b"}, "group"),
        ({"tags": ["a b"]}, "tags"),
        ({"tags": "a"}, "tags"),
        ({"at": "tomorrow"}, "at"),
        ({"retry_policy": "often"}, "retry_policy"),
        ({"retry_policy": {"policy": "times", "times": -1}}, "retry_policy.times"),
        ({"priority": 1}, "priority"),
    ],
)
def test_invalid_input_is_named_and_schedules_nothing(operator, wrong, field):
    assert_problem(operator.post(TASKS, {**TASK, **wrong}), 400, "invalid", fields=[field])
    assert not Task.objects.exists()


def test_a_request_that_is_sent_twice_schedules_one_task(operator):
    first, second = (operator.post(TASKS, TASK, headers={"Idempotency-Key": "k"}) for _ in range(2))

    assert first.json() == second.json()
    assert Task.objects.count() == 1


def test_a_cancellation_of_an_older_state_is_refused(operator):
    task = operator.post(TASKS, TASK).json()["id"]
    etag = operator.get(f"{TASKS}{task}/")["ETag"]
    Task.objects.update(attempts=1)

    assert operator.post(f"{TASKS}{task}/cancel/", headers={"If-Match": etag}).status_code == 412
    current = operator.get(f"{TASKS}{task}/")["ETag"]
    assert operator.post(f"{TASKS}{task}/cancel/", headers={"If-Match": current}).status_code == 200


def test_viewers_see_tasks_and_change_none(operator):
    task = operator.post(TASKS, TASK).json()["id"]
    (ended,) = archive(operator)
    viewer = client_of(VIEWER)

    for address in (
        TASKS,
        ARCHIVED,
        TEMPLATES,
        "/api/v1/task-workers/",
        "/api/v1/task-kinds/",
        "/api/v1/task-statistics/",
    ):
        assert viewer.get(address).status_code == 200, address
    assert viewer.post(TASKS, TASK).status_code == 403
    assert viewer.post(f"{TASKS}{task}/cancel/").status_code == 403
    assert viewer.post(f"{ARCHIVED}{ended}/reschedule/").status_code == 403


def test_only_administrators_make_and_remove_templates(operator):
    administrator = client_of(ADMINISTRATOR)
    assert operator.post(TEMPLATES, NIGHTLY).status_code == 403

    made = administrator.post(TEMPLATES, NIGHTLY).json()

    assert len(made["next_runs"]) == 5
    assert operator.delete(f"{TEMPLATES}{made['id']}/").status_code == 403
    assert administrator.delete(f"{TEMPLATES}{made['id']}/").status_code == 204
    assert not TaskTemplate.objects.filter(urn="nightly").exists()


def test_a_template_that_is_created_again_keeps_its_counters(operator):
    administrator = client_of(ADMINISTRATOR)
    administrator.post(TEMPLATES, NIGHTLY)
    TaskTemplate.objects.filter(urn="nightly").update(executions=3)

    changed = administrator.post(TEMPLATES, {**NIGHTLY, "schedule": {"every_minutes": 5}, "unique": True}).json()

    assert (changed["executions"], changed["unique"], TaskTemplate.objects.filter(urn="nightly").count()) == (
        3,
        True,
        1,
    )


@pytest.mark.parametrize(
    ("wrong", "field"),
    [({"schedule": {"cron": "nightly"}}, "schedule.cron"), ({"kind": "no"}, "kind"), ({"schedule": {}}, "schedule")],
)
def test_an_invalid_template_is_refused_by_field_and_changes_nothing(db, wrong, field):
    assert_problem(client_of(ADMINISTRATOR).post(TEMPLATES, {**NIGHTLY, **wrong}), 400, "invalid", fields=[field])
    assert not TaskTemplate.objects.filter(urn="nightly").exists()


def test_a_built_in_template_cannot_be_removed(db):
    made = verbs.put_template(**NIGHTLY, is_built_in=True, made_by="crawlctl")

    assert client_of(ADMINISTRATOR).delete(f"{TEMPLATES}{made.pk}/").status_code == 409


def test_an_ended_task_can_be_rescheduled_but_not_cancelled(operator):
    (task,) = archive(operator)

    assert_problem(operator.post(f"{TASKS}{task}/cancel/"), 409, "task_refused")
    again = operator.post(f"{ARCHIVED}{task}/reschedule/", {"at": "2031-01-01T00:00:00Z"}).json()
    assert (again["made_of_urn"], again["scheduled_at"]) == (str(task), "2031-01-01T00:00:00Z")
    assert_problem(operator.post(f"{ARCHIVED}777/reschedule/"), 404, "not_found")
    assert NodeEvent.objects.filter(message__contains=f"cancelled task {task}").exists()


def test_ended_tasks_are_rescheduled_by_a_filter(operator):
    archive(operator, 3, group="mail")
    archive(operator, 2, group="export")

    assert operator.post(f"{ARCHIVED}reschedule/", {"group": "mail"}).json() == {"scheduled": 3}
    assert Task.objects.filter(group="mail").count() == Task.objects.count() == 3
    assert_problem(operator.post(f"{ARCHIVED}reschedule/", {}), 400, "invalid", fields=["request"])


def test_lists_of_tasks_are_narrowed_by_group_kind_tag_and_state(operator):
    operator.post(TASKS, TASK)
    operator.post(TASKS, {"kind": "exit"})

    for query, number in (("group=mail", 1), ("kind=exit", 1), ("tag=b", 1), ("state=running", 0), ("", 2)):
        assert len(operator.get(f"{TASKS}?{query}").json()["results"]) == number, query


def test_the_roster_shows_the_task_of_a_worker(operator, connection, dsn):
    main_recruiter, worker = MainRecruiter(connection), Worker(connection, dsn, name="post")
    task = operator.post(TASKS, TASK).json()["id"]
    main_recruiter.assign()

    (shown,) = operator.get("/api/v1/task-workers/").json()["results"]

    assert (shown["id"], shown["name"], shown["task"], shown["is_running"]) == (str(worker.id), "post", task, False)


def test_kinds_are_listed_with_the_schema_of_their_arguments(operator):
    listed = {kind["name"]: kind for kind in operator.get("/api/v1/task-kinds/").json()}

    assert listed["note"]["schema"]["required"] == ["file"]


def output_of_task(*arguments):
    out = io.StringIO()
    call_command("task", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_runs_lists_shows_cancels_and_reschedules_tasks(transactional_db):
    output_of_task("run", "count", "--group", "mail", "--tag", "a", "--retry-policy", '{"policy": "forever"}')
    task = Task.objects.get()

    assert f"{task.pk} count [mail] is due" in output_of_task("list", "--group", "mail")
    assert "retry_policy: {'policy': 'forever'}" in output_of_task("show", str(task.pk))
    assert "is cancelled" in output_of_task("cancel", str(task.pk))
    assert "cancelled" in output_of_task("list", "--archived", "--tag", "a")
    assert "is scheduled" in output_of_task("reschedule", str(task.pk))
    assert "note(file, seconds?, result?)" in output_of_task("kinds")
    assert "queued 1, running 0" in output_of_task("statistics", "--group", "mail")


def test_the_command_shows_templates_with_five_runs_and_removes_them(transactional_db):
    # The built-in templates exist unless an earlier test emptied the tables.
    TaskTemplate.objects.all().delete()
    verbs.put_template(**NIGHTLY, made_by="a test")

    assert len(output_of_task("templates").splitlines()) == 6
    assert "removed" in output_of_task("remove-template", "nightly")
    assert output_of_task("templates") == ""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("run", "no"), 2),
        (("run", "count", "--group", "a b"), 2),
        (("run", "note", "--argument", "file"), 2),
        (("show", "77"), 2),
        (("cancel", "77"), 2),
        (("remove-template", "no"), 2),
    ],
)
def test_the_command_names_bad_input_and_changes_nothing(transactional_db, arguments, code):
    with pytest.raises(CommandError) as refused:
        output_of_task(*arguments)

    assert refused.value.returncode == code
    assert not Task.objects.exists()
    assert not ArchivedTask.objects.exists()
