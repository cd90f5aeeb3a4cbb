"""
Proves the pages of background tasks: lists, filters, the page of a task, forms, changes by role, and live updates.
"""

import datetime as dt
import re
import uuid

import pytest
from django.test import Client
from django.utils import timezone

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from crawlctl.live.topics import is_topic, read_screen
from jobs.partitions.merged import Merged
from jobs.queries import tasks
from jobs.queries.tasks import TemplateKey, read_templates_everywhere
from nodes.tasks import queries, verbs
from nodes.tasks.models import ArchivedTask, Task, TaskTemplate, TaskWorker
from nodes.web.topics import TopicUnknown
from tests.support.api import NOON, make_user
from tests.support.task_kinds import NAMED
from tests.support.tasks import MainRecruiter, Worker

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def kinds(settings):
    settings.CRAWLCTL_TASKS = (NAMED,)


def visitor(role):
    client = Client()
    client.force_login(make_user(role, name=role))
    return client


@pytest.fixture
def operator():
    return visitor(OPERATOR)


@pytest.fixture
def administrator():
    return visitor(ADMINISTRATOR)


def schedule(kind="count", **facts):
    return verbs.create(kind=kind, made_by="a test", **facts)


def archive(number=1, **facts):
    """Store this number of ended tasks. Return them in the order of their ends."""
    start = ArchivedTask.objects.count()
    now = timezone.now()
    known = {"kind": "count", "retry_policy": {"policy": "never"}, "created_by": "a test", "why": "done"}
    return ArchivedTask.objects.bulk_create(
        ArchivedTask(
            **{"id": 1000 + n, "archived_at": now - dt.timedelta(hours=1) + dt.timedelta(seconds=n), **known, **facts}
        )
        for n in range(start, start + number)
    )


def text_of(response):
    assert response.status_code == 200, response.status_code
    return response.content.decode()


def keys_of(response):
    """Return the keys of the rows of the page's lists."""
    return re.findall(r'<tr data-key="([^"]+)"', text_of(response))


def messages_of(response):
    return [str(message) for message in response.context["messages"]]


# --- Lists -------------------------------------------------------------------------------------------


def test_scheduled_tasks_are_listed_with_running_ones_first(operator, connection, dsn):
    main_recruiter, worker = MainRecruiter(connection), Worker(connection, dsn)
    later = schedule(at=timezone.now() + dt.timedelta(hours=1))
    now = schedule()
    main_recruiter.assign()
    sooner = schedule(at=timezone.now() + dt.timedelta(minutes=1))

    assert worker.assigned() == now
    assert keys_of(operator.get("/tasks/scheduled/")) == [str(task.pk) for task in (now, sooner, later)]
    assert keys_of(operator.get("/tasks/scheduled/?state=assigned")) == [str(now.pk)]
    assert keys_of(operator.get("/tasks/scheduled/?state=running")) == []


@pytest.mark.parametrize(
    ("query", "wanted"),
    [("group=mail", "mail"), ("kind=fail", "kind"), ("tag=x", "tag"), ("state=waiting&tag=x", "tag")],
)
def test_scheduled_tasks_are_filtered(operator, query, wanted):
    tasks = {"mail": schedule(group="mail"), "kind": schedule("fail"), "tag": schedule(tags=["x", "y"])}

    assert keys_of(operator.get(f"/tasks/scheduled/?{query}")) == [str(tasks[wanted].pk)]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [("group=mail", 0), ("kind=fail", 1), ("tag=x", 2), ("why=cancelled", 3), ("since=2026-01-01T00:00:00&tag=x", 2)],
)
def test_archived_tasks_are_filtered(operator, query, wanted):
    different = ({"group": "mail"}, {"kind": "fail"}, {"tags": ["x"]}, {"why": "cancelled"})
    tasks = [archive(**facts)[0] for facts in different]

    assert keys_of(operator.get(f"/tasks/archived/?{query}")) == [str(tasks[wanted].pk)]


def test_tasks_that_ended_before_a_moment_can_be_left_out(operator):
    archive(archived_at=timezone.now() - dt.timedelta(days=2))
    (new,) = archive()
    yesterday = f"{timezone.now() - dt.timedelta(days=1):%Y-%m-%dT%H:%M:%S}"

    assert keys_of(operator.get(f"/tasks/archived/?since={yesterday}")) == [str(new.pk)]


@pytest.mark.parametrize("address", ["/tasks/archived/", "/tasks/scheduled/"])
def test_the_pages_of_a_list_show_each_task_once(operator, address):
    archive(queries.A_PAGE * 2 + 5, archived_at=timezone.now())
    at = timezone.now() + dt.timedelta(hours=1)
    for _ in range(queries.A_PAGE + 5):
        schedule(at=at)

    seen, query = [], "?"
    while query:
        response = operator.get(address + query)
        seen += keys_of(response)
        query = response.context["next_query"] and f"?{response.context['next_query']}"

    stored = (ArchivedTask if "archived" in address else Task).objects.values_list("pk", flat=True)
    assert sorted(seen) == sorted(map(str, stored))


@pytest.mark.parametrize(
    "query", ["state=asleep", "group=*", "kind=%00", "after=x", "after=2026-01-01T00:00:00Z,99999999999999999999"]
)
def test_an_invalid_filter_is_named_and_shows_no_tasks(operator, query):
    schedule()

    response = operator.get(f"/tasks/scheduled/?{query}")

    assert keys_of(response) == []
    assert response.context["form"].errors
    assert response.context["topic"] == ""


def test_a_list_of_tasks_that_takes_too_long_ends_with_a_reason(operator, monkeypatch):
    archive(50)
    monkeypatch.setattr(queries, "_STATEMENT_TIMEOUT", 50)
    slow = queries.archived
    monkeypatch.setattr(queries, "archived", lambda wanted: slow(wanted).extra(where=["pg_sleep(0.2) IS NOT NULL"]))

    response = operator.get("/tasks/archived/")

    assert "Choose a group as well." in text_of(response)
    assert response.context["topic"] == ""


def test_the_first_page_shows_counts_and_the_last_tasks(operator, connection, dsn):
    main_recruiter, worker = MainRecruiter(connection), Worker(connection, dsn)
    schedule("sleep", arguments={"seconds": 0})
    main_recruiter.assign()
    worker.work()
    waiting = schedule(at=timezone.now() + dt.timedelta(hours=1))
    started = timezone.now() - dt.timedelta(hours=1)
    slow, often = archive(2, attempts=1, last_started_at=started, last_ended_at=started + dt.timedelta(seconds=2))
    ArchivedTask.objects.filter(pk=slow.pk).update(last_ended_at=started + dt.timedelta(seconds=6))
    ArchivedTask.objects.filter(pk=often.pk).update(attempts=3)

    screen = operator.get("/tasks/").context["screen"]

    numbers = [screen[f"{name}_count"] for name in ("running", "queued", "postponed", "zombies", "workers")]
    assert numbers == ["0", "0", "1", "0", "1"]
    assert [row["key"] for row in screen["due"]] == [str(waiting.pk)]
    assert len(screen["ended"]) == 3
    assert [row["key"] for row in screen["slow"]] == [str(slow.pk)]
    assert [row["key"] for row in screen["often"]] == [str(often.pk)]


def test_the_first_page_can_show_one_group(operator):
    schedule(group="mail", at=timezone.now() + dt.timedelta(hours=1))
    schedule()
    archive(group="mail")
    archive()

    screen = operator.get("/tasks/?group=mail").context["screen"]

    assert (screen["postponed_count"], screen["queued_count"]) == ("1", "0")
    assert [row["group"] for row in (*screen["due"], *screen["ended"])] == ["mail", "mail"]


def test_due_tasks_without_a_worker_name_the_command(operator):
    schedule(group="mail")

    assert "crawlctl runtasks --work-on mail" in text_of(operator.get("/tasks/?group=mail"))


def test_the_roster_shows_each_worker_with_its_task(operator, connection, dsn):
    main_recruiter = MainRecruiter(connection)
    Worker(connection, dsn, name="first", work_on="mail")
    worker = Worker(connection, dsn, name="second")
    task = schedule()
    main_recruiter.assign()
    assert worker.assigned() == task

    rows = operator.get("/tasks/workers/").context["screen"]["workers"]

    assert [(row["name"], row["work_on"], row["state"], row["task"]) for row in rows] == [
        ("first", "mail", "free", ""),
        ("second", "all groups", "has a task", f"{task.pk} count"),
    ]


# --- One task ----------------------------------------------------------------------------------------


def test_a_task_shows_its_arguments_attempts_and_exception(operator):
    (task,) = archive(
        kind="note",
        arguments={"file": "/tmp/x", "seconds": 3},
        why="tried-too-many-times",
        attempts=4,
        last_class="ValueError",
        last_message=HOSTILE,
        last_trace=f"Traceback\n{HOSTILE}",
        last_worker="w (h:1)",
        created_by="me",
    )

    text = text_of(operator.get(f"/tasks/{task.pk}/"))

    assert HOSTILE not in text
    assert text.count("&lt;script&gt;") == 2
    for shown in ("/tmp/x", "tried too many times", "ValueError", "w (h:1)", "by me"):
        assert shown in text


def test_a_running_task_shows_its_progress_as_a_bar(operator, connection, dsn):
    main_recruiter, worker = MainRecruiter(connection), Worker(connection, dsn)
    task = schedule()
    main_recruiter.assign()
    assert worker.assigned() == task
    Task.objects.filter(pk=task.pk).update(started_at=timezone.now(), progress={"done": 250, "total": 1000})

    text = text_of(operator.get(f"/tasks/{task.pk}/"))

    assert "25 % done" in text
    assert 'value="250"' in text


def test_a_copy_and_its_original_link_to_each_other(operator):
    (task,) = archive()
    copy = verbs.reschedule(task.pk, made_by="me")

    assert f'href="/tasks/{copy.pk}/"' in text_of(operator.get(f"/tasks/{task.pk}/"))
    assert f'href="/tasks/{task.pk}/"' in text_of(operator.get(f"/tasks/{copy.pk}/"))


@pytest.mark.parametrize("number", [5, 2**63, 10**30])
def test_the_page_of_an_unknown_task_is_not_found(operator, number):
    assert operator.get(f"/tasks/{number}/").status_code == 404


# --- Running, cancelling, rescheduling -----------------------------------------------------------------


def test_a_task_is_run_by_the_form_of_its_kind(operator):
    response = operator.post(
        "/tasks/run/?kind=note",
        {
            "argument-file": "/tmp/x",
            "argument-seconds": "1.5",
            "argument-result": '{"a": [1]}',
            "group": "mail",
            "tags": "nightly, big",
            "urn": "mine",
            "at": "2030-01-01T00:00:00",
            "retry_policy": '{"policy": "times", "times": 2}',
        },
    )

    task = Task.objects.get()
    assert response["Location"] == f"/tasks/{task.pk}/"
    assert task.arguments == {"file": "/tmp/x", "seconds": 1.5, "result": {"a": [1]}}
    assert (task.group, task.tags, task.urn, task.created_by) == ("mail", ["nightly", "big"], "mine", OPERATOR)
    assert task.scheduled_at == dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
    assert task.retry_policy == {"policy": "times", "times": 2}


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({}, "argument-file"),
        ({"argument-file": "x", "argument-seconds": "soon"}, "argument-seconds"),
        ({"argument-file": "x", "argument-result": "{"}, "argument-result"),
        ({"argument-file": "x", "group": "a b"}, "group"),
        ({"argument-file": "x", "tags": "a*"}, "tags"),
        ({"argument-file": "x", "at": "tomorrow"}, "at"),
        ({"argument-file": "x", "retry_policy": '{"policy": "often"}'}, "retry_policy"),
        ({"argument-file": "x", "retry_policy": "5"}, "retry_policy"),
        ({"argument-file": "x", "retry_policy": "[" * 5_000}, "retry_policy"),
        ({"argument-file": "x", "retry_policy": '{"policy": "times", "times": -1}'}, "retry_policy"),
        ({"argument-file": "x", "urn": "x" * 300}, "urn"),
        ({"argument-file": "\0"}, "argument-file"),
    ],
)
def test_an_invalid_argument_is_named_at_its_field_and_runs_no_task(operator, sent, field):
    response = operator.post("/tasks/run/?kind=note", sent)

    assert list(response.context["form"].errors) == [field]
    assert not Task.objects.exists()


def test_every_kind_has_a_form(operator):
    names = re.findall(r'href="\?kind=([^"]+)"', text_of(operator.get("/tasks/run/")))

    assert {"sleep", "note", "clean_archive"} <= set(names)
    for name in names:
        assert f"<code>{name}</code>" in text_of(operator.get(f"/tasks/run/?kind={name}"))
    assert operator.get("/tasks/run/?kind=unknown").status_code == 404


def test_a_form_can_start_with_the_values_of_an_ended_task(operator):
    (task,) = archive(kind="note", arguments={"file": "/tmp/y", "result": [1]}, group="mail", tags=["a", "b"])

    form = operator.get(f"/tasks/run/?kind=note&like={task.pk}").context["form"]

    assert [form[name].value() for name in ("argument-file", "argument-result", "group", "tags")] == [
        "/tmp/y",
        "[\n 1\n]",
        "mail",
        "a b",
    ]


def test_a_waiting_task_is_cancelled_and_the_list_is_shown_again(operator):
    task = schedule()

    response = operator.post(f"/tasks/{task.pk}/cancel/", {"next": "/tasks/scheduled/?group=mail"}, follow=True)

    assert response.redirect_chain == [("/tasks/scheduled/?group=mail", 302)]
    assert messages_of(response) == [f"Task {task.pk} is cancelled."]
    assert ArchivedTask.objects.get().why == "cancelled"


def test_a_button_redirects_to_no_other_site(operator):
    task = schedule()

    response = operator.post(f"/tasks/{task.pk}/cancel/", {"next": "//example.org/"})

    assert response["Location"] == f"/tasks/{task.pk}/"


def test_an_ended_task_is_run_again_at_a_date(operator):
    (task,) = archive(arguments={})

    operator.post(f"/tasks/{task.pk}/reschedule/", {"at": "2030-01-01T00:00:00"})

    copy = Task.objects.get()
    assert copy.scheduled_at == dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
    assert copy.made_of_urn == str(task.pk)


def test_an_impossible_change_of_a_task_is_refused_with_a_reason(operator):
    (ended,), waiting = archive(), schedule()

    cancelled = operator.post(f"/tasks/{ended.pk}/cancel/", follow=True)
    again = operator.post(f"/tasks/{waiting.pk}/reschedule/", follow=True)
    undated = operator.post(f"/tasks/{ended.pk}/reschedule/", {"at": "soon"}, follow=True)

    assert messages_of(cancelled) == [f"Task {ended.pk} has ended. Reschedule it to run it again."]
    assert messages_of(again) == [f"Task {waiting.pk} has not ended. Cancel it first."]
    assert messages_of(undated) == ["Enter a valid date/time."]
    assert Task.objects.count() == 1


def test_many_tasks_are_counted_before_they_are_cancelled(operator):
    for _ in range(3):
        schedule(group="mail")
    schedule()

    confirmation = operator.get("/tasks/scheduled/cancel/?group=mail")
    assert "3 tasks match." in text_of(confirmation)
    assert len(keys_of(confirmation)) == 3
    assert Task.objects.count() == 4
    done = operator.post("/tasks/scheduled/cancel/?group=mail", follow=True)

    assert messages_of(done) == ["3 tasks are cancelled."]
    assert [task.group for task in Task.objects.all()] == ["generic"]
    assert ArchivedTask.objects.filter(why="cancelled", group="mail").count() == 3


def test_many_tasks_are_counted_before_they_run_again(operator):
    archive(3, why="tried-too-many-times")
    archive(2)

    confirmation = operator.get("/tasks/archived/reschedule/?why=tried-too-many-times")
    assert "3 tasks match." in text_of(confirmation)
    assert not Task.objects.exists()
    operator.post("/tasks/archived/reschedule/?why=tried-too-many-times")

    assert Task.objects.count() == 3
    assert ArchivedTask.objects.count() == 5


def test_tasks_beyond_the_limit_of_a_request_are_reported(operator, monkeypatch):
    monkeypatch.setattr(verbs, "MOST_CANCELLED", 2)
    for _ in range(3):
        schedule(group="mail")

    confirmation = operator.get("/tasks/scheduled/cancel/?group=mail")
    operator.post("/tasks/scheduled/cancel/?group=mail")

    assert "More than 2 tasks match. The first 2 are changed." in text_of(confirmation)
    assert Task.objects.count() == 1


@pytest.mark.parametrize("address", ["/tasks/scheduled/cancel/", "/tasks/archived/reschedule/"])
def test_many_tasks_change_only_with_a_valid_filter(operator, address):
    schedule()
    archive()

    for query in ("", "?state=asleep", "?why=bored"):
        operator.post(address + query)

    assert (Task.objects.count(), ArchivedTask.objects.count()) == (1, 1)


# --- Templates ---------------------------------------------------------------------------------------

NIGHTLY = {"urn": "nightly/report", "cron": "14 2 * * *", "time_zone": "Europe/Berlin", "argument-seconds": "3"}


def test_an_administrator_creates_changes_and_removes_a_template(administrator):
    administrator.post("/tasks/templates/new/?kind=sleep", {**NIGHTLY, "unique": "on"})
    template = TaskTemplate.objects.get(urn=NIGHTLY["urn"])
    assert template.schedule == {"cron": "14 2 * * *", "time_zone": "Europe/Berlin"}
    assert (template.arguments, template.unique, template.created_by) == ({"seconds": 3}, True, ADMINISTRATOR)

    TaskTemplate.objects.filter(pk=template.pk).update(executions=7)
    form = administrator.get(f"/tasks/templates/{template.pk}/").context["form"]
    assert (form["cron"].value(), form["argument-seconds"].value()) == ("14 2 * * *", 3)
    administrator.post(
        f"/tasks/templates/{template.pk}/", {"urn": "another", "every_minutes": "5", "argument-seconds": "4"}
    )
    template.refresh_from_db()
    assert (template.urn, template.schedule, template.executions) == (NIGHTLY["urn"], {"every_minutes": 5}, 7)

    administrator.post(f"/tasks/templates/{template.pk}/remove/")
    assert not TaskTemplate.objects.filter(urn=NIGHTLY["urn"]).exists()


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"urn": ""}, "urn"),
        ({"cron": "every night"}, "cron"),
        ({"cron": ""}, "cron"),
        ({"every_minutes": "5"}, "cron"),
        ({"time_zone": "Mars"}, "time_zone"),
        ({"argument-seconds": "-1"}, "argument-seconds"),
        ({"argument-seconds": ""}, "argument-seconds"),
    ],
)
def test_an_invalid_value_of_a_template_is_named_at_its_field(administrator, changed, field):
    before = TaskTemplate.objects.count()

    response = administrator.post("/tasks/templates/new/?kind=sleep", {**NIGHTLY, **changed})

    assert list(response.context["form"].errors) == [field]
    assert TaskTemplate.objects.count() == before


def test_a_new_template_does_not_replace_a_template_of_the_same_name(administrator):
    administrator.post("/tasks/templates/new/?kind=sleep", NIGHTLY)

    response = administrator.post("/tasks/templates/new/?kind=sleep", {**NIGHTLY, "cron": "0 0 * * *"})

    assert list(response.context["form"].errors) == ["urn"]
    assert TaskTemplate.objects.get(urn=NIGHTLY["urn"]).schedule["cron"] == NIGHTLY["cron"]


def test_a_template_shows_its_next_five_runs(operator):
    verbs.put_template(urn="often", kind="count", schedule={"every_minutes": 60 * 24}, made_by="me")

    (row,) = [row for row in operator.get("/tasks/templates/").context["screen"]["templates"] if row["urn"] == "often"]

    assert row["schedule"] == "every 1,440 minutes"
    assert len([row["next"], *row["later"].split(", ")]) == 5


def test_a_built_in_template_is_not_removed(administrator):
    template, _ = TaskTemplate.objects.get_or_create(
        urn="kept",
        defaults={
            "kind": "count",
            "retry_policy": {"policy": "never"},
            "schedule": {"every_minutes": 5},
            "is_built_in": True,
            "created_by": "crawlctl",
        },
    )

    assert "Remove template" not in text_of(administrator.get(f"/tasks/templates/{template.pk}/"))
    response = administrator.post(f"/tasks/templates/{template.pk}/remove/", follow=True)

    assert messages_of(response) == ["The template kept is built in and cannot be removed."]
    assert TaskTemplate.objects.filter(pk=template.pk).exists()


# --- Roles, navigation, live screens -------------------------------------------------------------------


def test_buttons_are_shown_to_the_roles_that_may_use_them():
    task, (ended,) = schedule(), archive()
    verbs.put_template(urn="often", kind="count", schedule={"every_minutes": 5}, made_by="me")
    pages = ("/tasks/", "/tasks/scheduled/?kind=count", "/tasks/archived/?kind=count", "/tasks/templates/")
    addresses = (*pages, f"/tasks/{task.pk}/", f"/tasks/{ended.pk}/")
    buttons = {
        "Run a task": OPERATOR,
        ">Cancel<": OPERATOR,
        "Cancel all of these": OPERATOR,
        "Cancel task": OPERATOR,
        ">Run again<": OPERATOR,
        "Run all of these again": OPERATOR,
        "New template": ADMINISTRATOR,
        ">Edit<": ADMINISTRATOR,
    }

    for place, role in enumerate((VIEWER, OPERATOR, ADMINISTRATOR)):
        client = visitor(role)
        shown = "".join(text_of(client.get(address)) for address in addresses)
        for button, least in buttons.items():
            assert (button in shown) == (place >= (VIEWER, OPERATOR, ADMINISTRATOR).index(least)), (role, button)


def test_the_navigation_leads_to_the_tasks(operator):
    assert 'href="/tasks/"' in text_of(operator.get("/"))
    assert re.search(r'href="/tasks/"\s+aria-current="page"', text_of(operator.get("/tasks/scheduled/")))


@pytest.mark.parametrize(
    "path", ["", "scheduled/?group=mail&state=waiting", "archived/?tag=x", "templates/", "workers/"]
)
def test_an_open_page_of_tasks_is_updated_for_its_filter(operator, path):
    schedule(group="mail", at=timezone.now() + dt.timedelta(hours=1))
    schedule()
    archive(tags=["x"])
    archive()

    context = operator.get(f"/tasks/{path}").context

    assert is_topic(context["topic"])
    followed = read_screen(context["topic"])
    assert followed.keys() == context["screen"].keys()
    for name, rows in followed.items():
        if isinstance(rows, list):
            assert [row["key"] for row in rows] == [row["key"] for row in context["screen"][name]]


def test_an_open_page_follows_its_task_into_the_archive(operator):
    task = schedule()
    topic = operator.get(f"/tasks/{task.pk}/").context["topic"]
    before = read_screen(topic)
    verbs.cancel(task.pk, made_by="me")

    after = read_screen(topic)

    assert (before["status"], after["status"]) == ("waiting", "cancelled")
    assert (len(before["cancels"]), len(after["cancels"]), len(after["agains"])) == (1, 0, 1)


@pytest.mark.parametrize("topic", ["task-77", "tasks-archived?why=bored", "tasks-scheduled?group=%2A"])
def test_live_updates_of_an_unknown_list_of_tasks_are_refused(topic):
    with pytest.raises(TopicUnknown):
        read_screen(topic)


def test_only_the_first_page_of_a_list_gets_live_updates(operator):
    archive(queries.A_PAGE + 1)
    first = operator.get("/tasks/archived/")

    second = operator.get(f"/tasks/archived/?{first.context['next_query']}")

    assert (first.context["topic"], second.context["topic"]) == ("tasks-archived", "")
    assert "First page" in text_of(second)


def pages_of(operator, address, name):
    """Follow the links from each page of a list to the next one, and return the rows of each page."""
    pages, query = [], ""
    while query is not None:
        context = operator.get(f"{address}?{query}").context
        pages.append([row["key"] for row in context["screen"][name]])
        query = context["next_query"] or None
    return pages


def test_a_page_of_task_workers_links_to_the_next_page(operator):
    roster = [TaskWorker(id=uuid.uuid4(), name=f"w{n}", host="here", pid=n, since=NOON) for n in range(205)]
    TaskWorker.objects.bulk_create(roster)

    pages = pages_of(operator, "/tasks/workers/", "workers")

    assert [len(page) for page in pages] == [100, 100, 5]
    assert {key for page in pages for key in page} == {str(worker.pk) for worker in roster}
    assert "and 105 more" in text_of(operator.get("/tasks/workers/"))


def test_a_page_of_templates_links_to_the_next_page(operator):
    like = {"kind": "count", "retry_policy": {"policy": "never"}, "schedule": {"every_minutes": 60}, "created_by": "x"}
    TaskTemplate.objects.bulk_create(TaskTemplate(urn=f"urn&{n}", **like) for n in range(205))

    pages = pages_of(operator, "/tasks/templates/", "templates")

    assert len(pages) == 3
    assert [key for page in pages for key in page] == [str(one.pk) for one in TaskTemplate.objects.all()]


@pytest.mark.parametrize("address", ["workers/?after=x", "workers/?after=2026-01-01,y", "templates/?after=%00"])
def test_an_invalid_page_of_a_list_of_tasks_is_not_found(operator, address):
    response = operator.get(f"/tasks/{address}")

    assert response.status_code == 404
    assert "Invalid page of the list. Start from the first page." in response.content.decode()


def test_templates_of_one_name_continue_on_the_next_page_by_partition(monkeypatch):
    like = {"kind": "count", "retry_policy": {"policy": "never"}, "schedule": {"every_minutes": 60}, "created_by": "x"}
    TaskTemplate.objects.all().delete()
    TaskTemplate.objects.bulk_create(TaskTemplate(urn=urn, **like) for urn in ("a", "b"))
    monkeypatch.setattr(tasks, "read_everywhere", lambda own, elsewhere: Merged(own(), {"p": elsewhere("p")}))

    behind = read_templates_everywhere(after=TemplateKey("a")).rows

    assert [(one.line.template.urn, one.partition) for one in behind] == [("a", "p"), ("b", ""), ("b", "p")]
