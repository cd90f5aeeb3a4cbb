"""Proves that rules send messages to real receivers on loopback: an SMTP server and an HTTP server."""

import base64
import datetime as dt
import hashlib
import hmac
import json

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F
from django.utils import timezone

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from jobs.duties.notices import NOTICES_TO_CHECK, request_check
from jobs.lifecycle.job import Phase, RunEnd
from jobs.models import Job, JobEvent
from jobs.notices import reading, verbs
from jobs.notices.channels.letter import NotSent
from jobs.notices.channels.signing import new_secret
from jobs.notices.checking import check_notices
from jobs.notices.models import (
    NotificationChannel,
    NotificationCheck,
    NotificationCondition,
    NotificationMessage,
    NotificationRule,
)
from jobs.notices.sending import send_notice
from jobs.queries.jobs import running
from nodes.errors import Invalid
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.models import NodeEvent
from nodes.tasks import verbs as task_verbs
from nodes.tasks.context import TaskContext
from nodes.tasks.models import ArchivedTask, Task
from tests.support.api import assert_problem, client_of
from tests.support.factories import make_job
from tests.support.receivers import mailbox, receiver
from tests.support.stepping import Main
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

HOUR = dt.timedelta(hours=1)
SECRET = new_secret()


@pytest.fixture
def mails():
    with mailbox() as box:
        yield box


@pytest.fixture
def hook():
    with receiver() as box:
        yield box


def email_to(box, **configuration):
    usual = {"host": "127.0.0.1", "port": box.port, "security": "none", "sender": "crawl@a.example"}
    return make_channel("email", {**usual, "recipients": ["ops@a.example"], **configuration})


def webhook_to(box, **facts):
    return make_channel("webhook", {"url": f"{box.url}/hook", "secret": SECRET}, **facts)


def make_channel(kind, configuration, **facts):
    return verbs.create_channel(name=kind, kind=kind, configuration=configuration, made_by="vera", **facts)


def make_rule(*channels, **facts):
    usual = {"name": "rule", "channels": [channel.pk for channel in channels]}
    return verbs.create_rule(**{**usual, **facts}, made_by="vera")


def check():
    """Check once, and send the waiting messages. Return the subjects of the new messages."""
    before = set(NotificationMessage.objects.values_list("pk", flat=True))
    check_notices(TaskContext(task=1, group="generic"), {})
    send_all()
    return list(NotificationMessage.objects.exclude(pk__in=before).order_by("pk").values_list("subject", flat=True))


def send_all():
    for message in NotificationMessage.objects.filter(state="waiting").order_by("pk"):
        send(message)


def send(message, *, is_last=True):
    return send_notice(TaskContext(task=1, group="generic", is_last_retry=is_last), {"message": message.pk})


def fail(job):
    now = timezone.now()
    Job.objects.filter(pk=job.pk).update(
        run_end=RunEnd.ERROR, reason="the source is broken", started_at=now, ended_at=now, run_no=1
    )


def repair(job):
    Job.objects.filter(pk=job.pk).update(run_end=RunEnd.FINISHED, reason="")


def let_pass(time):
    """Move all stored times back, as if this time had passed."""
    for model, names in (
        (NotificationCondition, ("found_at", "last_message_at", "missing_since")),
        (NotificationMessage, ("at",)),
        (NotificationCheck, ("checked_at",)),
    ):
        for row in model.objects.all():
            model.objects.filter(pk=row.pk).update(
                **{name: getattr(row, name) - time for name in names if getattr(row, name) is not None}
            )


def record(job, kind, message="ended"):
    JobEvent.objects.create(
        job=job, job_name=job.name, at=timezone.now(), kind=kind, made_by="manager", message=message
    )


# --- Conditions ----------------------------------------------------------------------------------


def test_a_failed_job_is_mailed_once_then_as_a_reminder_then_as_ended(mails):
    job = make_job("books")
    make_rule(email_to(mails), topics=["job_fails"], remind_after=60)
    assert check() == []

    fail(job)
    assert check() == ["A job fails: books"]
    assert check() == []
    let_pass(HOUR)
    assert check() == ["Reminder: A job fails: books"]
    repair(job)
    assert check() == []
    let_pass(HOUR)
    assert check() == ["Ended: A job fails: books"]

    assert [mail["Subject"] for mail in mails.mails] == [
        "[crawlctl] A job fails: books",
        "[crawlctl] Reminder: A job fails: books",
        "[crawlctl] Ended: A job fails: books",
    ]
    first = mails.mails[0]
    assert (first["From"], mails.recipients[0]) == ("crawl@a.example", ["ops@a.example"])
    assert "the source is broken" in first.get_body(("plain",)).get_content()
    assert "the source is broken" in first.get_body(("html",)).get_content()
    assert f"/jobs/{job.pk}/" in first.get_body(("plain",)).get_content()
    assert len({mail["Message-ID"] for mail in mails.mails}) == 3


def test_a_rule_without_topics_covers_all_lines_of_the_attention_list(hook):
    make_rule(webhook_to(hook))
    Job.objects.filter(pk=make_job("books").pk).update(phase=Phase.ACTIVE, run_no=1, started_at=timezone.now())

    assert set(check()) >= {"No manager runs: manager", "No worker runs: worker"}


def test_a_rule_for_one_job_sends_nothing_about_other_jobs(hook):
    one, other = make_job("one"), make_job("other")
    make_rule(webhook_to(hook), topics=["job_fails"], job=one.pk)

    fail(other)
    assert check() == []
    fail(one)
    assert check() == ["A job fails: one"]


def test_a_running_job_without_documents_is_reported_after_its_limit(hook):
    job = make_job("books")
    make_rule(webhook_to(hook), topics=["no_documents", "runs_long"], minutes=30)
    Job.objects.filter(pk=job.pk).update(phase=Phase.ACTIVE, run_no=1, started_at=timezone.now())
    assert check() == []

    state = NotificationCheck.objects.get()
    ((run_no, processed, at),) = state.progress.values()
    assert (run_no, processed) == (1, 0)
    state.progress = {str(job.pk): [1, 0, (dt.datetime.fromisoformat(at) - HOUR).isoformat()]}
    state.save()
    assert check() == ["A running job processes no document: books"]
    Job.objects.filter(pk=job.pk).update(started_at=timezone.now() - HOUR)
    assert check() == ["A run takes long: books"]


def test_rules_with_a_limit_also_cover_jobs_beyond_the_attention_list(hook):
    late, *_others = [make_job(f"job-{number:03}") for number in range(60)]
    Job.objects.update(phase=Phase.ACTIVE, run_no=1, started_at=timezone.now())
    Job.objects.filter(pk=late.pk).update(started_at=timezone.now() - HOUR)
    make_rule(webhook_to(hook), topics=["no_documents", "runs_long"], minutes=30)
    assert check() == ["A run takes long: job-000"]

    state = NotificationCheck.objects.get()
    run_no, processed, at = state.progress[str(late.pk)]
    state.progress[str(late.pk)] = [run_no, processed, (dt.datetime.fromisoformat(at) - HOUR).isoformat()]
    state.save()
    assert check() == ["A running job processes no document: job-000"]


def test_statements_of_a_check_do_not_grow_with_running_jobs(hook, django_assert_max_num_queries, monkeypatch):
    [make_job(f"job-{number}") for number in range(30)]
    Job.objects.update(phase=Phase.ACTIVE, run_no=1, started_at=timezone.now())
    monkeypatch.setattr(running, "_CHUNK", 10)

    with django_assert_max_num_queries(4):
        jobs = running.read_running_jobs()
    with django_assert_max_num_queries(3):
        processed = running.count_processed([job.pk for job in jobs])

    assert len(jobs) == len(processed) == 30


# --- Events --------------------------------------------------------------------------------------


def test_events_of_journals_are_sent_once_after_their_condition_has_ended(hook):
    job = make_job("books")
    make_rule(webhook_to(hook), topics=["job_fails", "job_ended", "job_stopped", "node_lost", "task_failed"])
    record(job, "finish")
    assert check() == []

    record(job, "fail", "ends with an error: out of memory")
    record(job, "end_aborted", "ended early")
    record(job, "finish", "is finished")
    record(job, "pause")
    NodeEvent.objects.create(
        scope=CLUSTER_SCOPE, kind="marked_failed", at=timezone.now(), message="worker-1 was marked failed: silent"
    )
    facts = {"kind": "export", "retry_policy": {}, "created_by": "vera", "archived_at": timezone.now()}
    ArchivedTask.objects.create(id=9, why="tried-too-many-times", last_message="no room", **facts)
    ArchivedTask.objects.create(id=10, why="done", **facts)
    ArchivedTask.objects.create(id=11, why="tried-too-many-times", **{**facts, "kind": "send_notice"})
    subjects = check()

    assert sorted(subjects) == [
        "A job fails: books",
        "A node failed: Node",
        "A run ended: books",
        "A run was stopped: books",
        "A task failed for the last time: Task 9 (export)",
    ]
    assert check() == []
    let_pass(HOUR)
    assert check() == []


def test_more_events_than_one_check_reads_are_sent_by_the_next_checks(hook, monkeypatch):
    monkeypatch.setattr(reading, "_MOST", 3)
    make_rule(webhook_to(hook, most_an_hour=100), topics=["job_fails", "node_lost", "task_failed"])
    check()
    at, facts = timezone.now(), {"kind": "export", "retry_policy": {}, "created_by": "vera"}
    for number in range(7):
        record(make_job(f"job-{number}"), "fail", "ends with an error")
        NodeEvent.objects.create(
            scope=CLUSTER_SCOPE, kind="marked_failed", at=at, message="lost", detail={"name": f"node-{number}"}
        )
        ArchivedTask.objects.create(id=number, why="tried-too-many-times", archived_at=at, **facts)

    checks = [check()]
    # Later checks no longer read events of this time.
    for model, name in (
        (JobEvent, "at"),
        (NodeEvent, "at"),
        (ArchivedTask, "archived_at"),
        (NotificationCheck, "read_until"),
    ):
        model.objects.update(**{name: F(name) - HOUR})
    while checks[-1]:
        checks.append(check())

    subjects = [subject for subjects in checks for subject in subjects]
    assert (len(subjects), len(set(subjects))) == (21, 21)
    assert all(len(subjects) <= 9 for subjects in checks)


def test_an_event_of_a_lasting_condition_makes_no_second_message(hook):
    job = make_job("books")
    make_rule(webhook_to(hook), topics=["job_fails"])
    check()

    record(job, "fail")
    fail(job)

    assert check() == ["A job fails: books"]
    repair(job)
    check()
    let_pass(HOUR)
    assert check() == ["Ended: A job fails: books"]


# --- Floods --------------------------------------------------------------------------------------


def test_messages_above_the_limit_of_an_hour_are_summed_up(hook):
    jobs = [make_job(f"job-{number}") for number in range(5)]
    make_rule(webhook_to(hook, most_an_hour=2), topics=["job_fails"])
    for job in jobs:
        fail(job)

    check()
    assert len(hook.requests) == 2
    let_pass(HOUR)
    assert check() == ["3 messages were suppressed"]

    body = json.loads(hook.requests[-1].body)
    assert body["type"] == "crawlctl.summary"
    assert body["data"]["text"].count("- A job fails: job-") == 3
    let_pass(HOUR)
    assert check() == []


def test_a_muted_channel_gets_a_summary_after_its_muting(hook):
    channel = webhook_to(hook)
    make_rule(channel, topics=["job_fails"])
    verbs.mute_channel(channel.pk, minutes=10, made_by="olga")
    fail(make_job("books"))

    check()
    assert hook.requests == []
    verbs.mute_channel(channel.pk, minutes=0, made_by="olga")

    assert check() == ["1 message was suppressed"]


def test_a_rule_reports_a_lasting_condition_after_its_muting(hook):
    rule = make_rule(webhook_to(hook), topics=["job_fails"])
    verbs.mute_rule(rule.pk, minutes=10, made_by="olga")
    fail(make_job("books"))

    assert check() == []
    verbs.mute_rule(rule.pk, minutes=0, made_by="olga")
    assert check() == ["A job fails: books"]


# --- Channels ------------------------------------------------------------------------------------


def test_a_webhook_is_signed_over_its_time_and_body(hook):
    channel = webhook_to(hook)
    verbs.send_test_message(channel.pk, made_by="olga")
    send_all()

    (request,) = hook.requests
    message = NotificationMessage.objects.get()
    headers = request.headers
    assert (request.path, headers["webhook-id"]) == ("/hook", f"msg_crawlctl_{message.pk}")
    assert abs(int(headers["webhook-timestamp"]) - timezone.now().timestamp()) < 60
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + request.body
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    digest = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{digest}"
    assert (message.state, message.answer, message.attempts) == ("sent", "200 ok", 1)


def test_a_failed_message_is_retried_under_the_same_id(hook):
    channel = webhook_to(hook, retry_policy={"policy": "times", "times": 1, "seconds": 5})
    message = verbs.send_test_message(channel.pk, made_by="olga")
    assert Task.objects.get(pk=message.task).retry_policy == {"policy": "times", "times": 1, "seconds": 5}
    hook.answers += [(503, b"busy " * 1000, {}), (503, b"busy", {})]

    with pytest.raises(NotSent, match="answered 503: busy"):
        send(message, is_last=False)
    message.refresh_from_db()
    assert (message.state, len(message.answer)) == ("waiting", 200)
    with pytest.raises(NotSent):
        send(message, is_last=True)
    message.refresh_from_db()
    channel.refresh_from_db()
    assert (message.state, message.attempts, channel.last_error) == ("failed", 2, "answered 503: busy")
    # The task is rescheduled from the archive.
    send(message)
    assert send(message) is None

    assert len({request.headers["webhook-id"] for request in hook.requests}) == 1
    assert len(hook.requests) == 3


def test_a_redirect_is_not_followed(hook):
    channel = webhook_to(hook)
    message = verbs.send_test_message(channel.pk, made_by="olga")
    hook.answers.append((302, b"", {"Location": f"{hook.url}/elsewhere"}))

    with pytest.raises(NotSent, match="answered 302"):
        send(message)

    assert [request.path for request in hook.requests] == ["/hook"]


def test_slack_and_rocket_chat_get_text_without_mentions(hook):
    for kind in ("slack", "rocket_chat"):
        make_rule(make_channel(kind, {"url": f"{hook.url}/{kind}/token"}), name=kind, topics=["job_fails"])
    fail(make_job("<!channel> & @all"))

    check()

    texts = {request.path: json.loads(request.body)["text"] for request in hook.requests}
    assert "A job fails: &lt;!channel&gt; &amp; @all" in texts["/slack/token"]
    assert "@all" not in texts["/rocket_chat/token"]
    assert "A job fails: <!channel> &" in texts["/rocket_chat/token"]


def test_a_mail_server_gets_the_password_and_no_log_has_it(mails, caplog):
    good = email_to(mails, username="crawl", password="right")
    send(verbs.send_test_message(good.pk, made_by="olga"))
    assert len(mails.mails) == 1

    verbs.change_channel(good.pk, configuration={**good.configuration, "password": "wrong-and-secret"}, made_by="vera")
    message = verbs.send_test_message(good.pk, made_by="olga")
    with pytest.raises(NotSent, match="refused the user and the password"):
        send(message)

    message.refresh_from_db()
    texts = [message.answer, caplog.text, *NodeEvent.objects.values_list("message", flat=True)]
    texts += [json.dumps(detail) for detail in NodeEvent.objects.values_list("detail", flat=True)]
    assert not any("wrong-and-secret" in text for text in texts)


def test_a_refused_recipient_is_named(mails):
    mails.refused.add("ops@a.example")

    with pytest.raises(NotSent, match=r"refused the recipients ops@a\.example"):
        send(verbs.send_test_message(email_to(mails).pk, made_by="olga"))


def test_a_message_to_an_absent_receiver_fails_within_its_timeout():
    channel = make_channel("slack", {"url": "http://127.0.0.1:9/a-secret-path"})
    message = verbs.send_test_message(channel.pk, made_by="olga")

    with pytest.raises(NotSent, match=r"^the request failed: Client\w+$"):
        send(message)


# --- The duty ------------------------------------------------------------------------------------


def test_the_main_manager_inserts_one_check_at_a_time_and_none_without_a_rule(connection):
    main = Main(connection)

    def is_due():
        return connection.execute(f"SELECT {NOTICES_TO_CHECK}", {"scope": CLUSTER_SCOPE}).fetchone()[0]

    assert not is_due()
    make_rule(topics=["job_fails"])
    assert is_due()
    assert [main.step(request_check), main.step(request_check)] == [1, 0]
    assert not is_due()
    assert Task.objects.get().kind == "check_notices"


def test_users_cannot_create_the_tasks_that_send_notifications():
    for kind in ("check_notices", "send_notice"):
        with pytest.raises(Invalid):
            task_verbs.create(kind=kind, arguments={"message": 1}, made_by="olga")


# --- Doors ---------------------------------------------------------------------------------------


def channel_body(**facts):
    return {"name": "hook", "kind": "webhook", "configuration": {"url": "http://a.example/", "secret": SECRET}, **facts}


@each_row("field, value", [("host", "elsewhere.example"), ("port", 2526), ("security", "tls")])
def test_a_password_must_be_written_again_for_another_mail_server(field, value):
    usual = {"host": "mail.example", "port": 2525, "security": "none", "sender": "crawl@a.example"}
    channel = make_channel(
        "email", {**usual, "recipients": ["ops@a.example"], "username": "crawl", "password": "right"}
    )
    client, at = client_of(ADMINISTRATOR), f"/api/v1/notification-channels/{channel.pk}/"
    shown = client.get(at).json()["configuration"]

    refused = client.patch(at, {"configuration": {**shown, field: value}})

    assert_problem(refused, 400, "invalid", fields=["configuration.password"])
    assert client.patch(at, {"configuration": {**shown, "sender": "other@a.example"}}).status_code == 200


def test_the_api_never_shows_a_secret_and_keeps_it_under_its_mask():
    client = client_of(ADMINISTRATOR)
    made = client.post("/api/v1/notification-channels/", channel_body())
    assert made.status_code == 201, made.content
    at = made["Location"]
    stored = NotificationChannel.objects.get()
    assert stored.configuration["secret"].startswith("sealed:")

    shown = client.get(at).json()["configuration"]
    assert shown == {"url": "http://a.example/", "secret": "(secret)"}
    changed = client.patch(at, {"configuration": {**shown, "url": "http://b.example/"}})
    assert changed.status_code == 200, changed.content

    again = NotificationChannel.objects.get()
    assert again.configuration == {**stored.configuration, "url": "http://b.example/"}
    for answer in (made, changed, client.get("/api/v1/node-events/"), client.get("/notifications/")):
        assert SECRET not in answer.content.decode()
        assert "sealed:" not in answer.content.decode()


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ({"kind": "pigeon"}, "kind"),
        ({"name": " "}, "name"),
        ({"configuration": {"url": "http://a.example/"}}, "configuration.secret"),
        ({"configuration": {"url": "ftp://a.example/", "secret": SECRET}}, "configuration.url"),
        ({"configuration": {"url": "http://me:word@a.example/", "secret": SECRET}}, "configuration.url"),
        ({"configuration": {"url": "http://a.example/", "secret": "short"}}, "configuration.secret"),
        ({"configuration": {"url": "http://a.example/", "secret": "(secret)"}}, "configuration.secret"),
        ({"configuration": {"url": "http://a.example/", "secret": SECRET, "x": 1}}, "configuration.x"),
        ({"configuration": []}, "configuration"),
        ({"most_an_hour": 0}, "most_an_hour"),
        ({"retry_policy": {"policy": "hope"}}, "retry_policy.policy"),
    ],
)
def test_an_invalid_channel_is_refused_by_field(facts, field):
    answer = client_of(ADMINISTRATOR).post("/api/v1/notification-channels/", channel_body(**facts))

    assert_problem(answer, 400, "invalid", fields=[field])
    assert not NotificationChannel.objects.exists()


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ({"topics": ["weather"]}, "topics"),
        ({"topics": ["runs_long"]}, "minutes"),
        ({"job": 10**9}, "job"),
        ({"channels": [10**9]}, "channels"),
        ({"remind_after": 0}, "remind_after"),
    ],
)
def test_an_invalid_rule_is_refused_by_field(facts, field):
    answer = client_of(ADMINISTRATOR).post("/api/v1/notification-rules/", {"name": "rule", **facts})

    assert (answer.status_code, next(iter(answer.json()["fields"])).partition(".")[0]) == (400, field)
    assert not NotificationRule.objects.exists()


def test_viewers_see_operators_mute_and_administrators_change_channels(hook):
    channel = webhook_to(hook)
    rule = make_rule(channel)
    calls = {
        "see": lambda client: client.get("/api/v1/notification-messages/"),
        "test": lambda client: client.post(f"/api/v1/notification-channels/{channel.pk}/test/"),
        "mute": lambda client: client.post(f"/api/v1/notification-rules/{rule.pk}/mute/", {"minutes": 5}),
        "change": lambda client: client.patch(f"/api/v1/notification-rules/{rule.pk}/", {"remind_after": 9}),
    }
    clients = {role: client_of(role) for role in (VIEWER, OPERATOR, ADMINISTRATOR)}
    statuses = {role: [call(client).status_code for call in calls.values()] for role, client in clients.items()}

    assert statuses == {
        VIEWER: [200, 403, 403, 403],
        OPERATOR: [200, 202, 200, 403],
        ADMINISTRATOR: [200, 202, 200, 200],
    }


@pytest.mark.django_db(transaction=True)
def test_commands_make_test_and_delete_channels_and_rules(hook, tmp_path, capsys):
    file = tmp_path / "hook.json"
    file.write_text(json.dumps({"url": hook.url, "secret": SECRET}))
    call_command("notification", "add-channel", "hook", "webhook", str(file))
    call_command("notification", "add-rule", "fails", "--topic", "job_fails", "--channel", "hook")
    call_command("notification", "test", "hook")
    send_all()
    call_command("notification", "mute-channel", "hook", "5")
    call_command("notification", "messages")
    call_command("notification", "rules")
    call_command("notification", "delete-rule", "fails")
    call_command("notification", "delete-channel", "hook")
    output = capsys.readouterr().out

    assert "hook sent: Test of the channel hook (200 ok)" in output
    assert "fails: job_fails → hook" in output
    assert SECRET not in output
    file.write_text("{")
    with pytest.raises(CommandError, match="is not JSON") as refused:
        call_command("notification", "add-channel", "hook", "webhook", str(file))
    assert refused.value.returncode == 2
    assert not NotificationChannel.objects.exists()


def test_a_message_whose_task_ended_without_sending_is_shown_as_failed(hook, connection):
    main = Main(connection)
    channel = webhook_to(hook)
    first, second, waiting = (verbs.send_test_message(channel.pk, made_by="vera") for _ in range(3))
    facts = {"scope": CLUSTER_SCOPE}
    assert main.connection.execute(f"SELECT {NOTICES_TO_CHECK}", facts).fetchone() == (False,)
    task_verbs.cancel(first.task, made_by="vera")
    Task.objects.filter(pk=second.task).delete()
    assert main.connection.execute(f"SELECT {NOTICES_TO_CHECK}", facts).fetchone() == (True,)

    check_notices(TaskContext(task=1, group="generic"), {})

    for message in (first, second, waiting):
        message.refresh_from_db()
    assert (first.state, first.answer) == ("failed", "The task of the message ended: cancelled.")
    assert (second.state, second.answer) == ("failed", "The task of the message no longer exists.")
    assert waiting.state == "waiting"
