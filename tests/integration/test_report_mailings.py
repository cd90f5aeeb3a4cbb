"""Proves that scheduled reports arrive at a real mail server on loopback."""

import datetime as dt

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.utils import timezone

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR
from jobs.models import Activity
from jobs.notices import mailings, verbs
from jobs.notices.channels.letter import NotSent
from jobs.notices.models import NotificationChannel, NotificationMessage, ReportMailing
from nodes.tasks import verbs as task_verbs
from nodes.tasks.context import TaskContext
from nodes.tasks.models import TaskTemplate
from tests.support.api import assert_problem, client_of
from tests.support.factories import make_job
from tests.support.partitions import be_partition
from tests.support.receivers import mailbox

pytestmark = pytest.mark.django_db

MONDAY = {"cron": "0 7 * * 1", "time_zone": "Europe/Berlin"}


@pytest.fixture
def mails():
    with mailbox() as box:
        yield box


@pytest.fixture
def channel(mails):
    facts = {"host": "127.0.0.1", "port": mails.port, "security": "none", "sender": "crawl@a.example"}
    configuration = {**facts, "recipients": ["ops@a.example"]}
    return verbs.create_channel(name="mail", kind="email", configuration=configuration, made_by="vera")


def put(channel, **facts):
    usual = {"name": "weekly", "report": "history", "channel": channel.pk, "schedule": MONDAY}
    return mailings.put_mailing(**{**usual, **facts}, made_by="vera")


def send(name="weekly"):
    return mailings.mail_report(TaskContext(task=7, group="generic"), {"mailing": name})


def fetch(job, address, *, ago):
    Activity.objects.create(
        started_at=timezone.now() - ago,
        job_id=job.pk,
        repository_id=job.repository_id,
        activity="fetch",
        entity=address,
        result_code="200",
        result_description="",
    )


def test_a_mailed_report_has_the_rows_of_its_hours_as_text_html_and_csv(mails, channel):
    job = make_job("books")
    fetch(job, "http://a.example/new", ago=dt.timedelta(minutes=5))
    fetch(job, "=cmd()", ago=dt.timedelta(minutes=6))
    fetch(job, "http://a.example/old", ago=dt.timedelta(hours=30))
    put(channel, recipients=["boss@a.example"])

    send()

    (mail,) = mails.mails
    assert (mail["Subject"], mails.recipients) == ("[crawlctl] Report weekly", [["boss@a.example"]])
    text = mail.get_body(("plain",)).get_content()
    assert "2 rows." in text
    assert "http://a.example/new" in text
    assert "http://a.example/old" not in text
    assert "<td>http://a.example/new</td>" in mail.get_body(("html",)).get_content()
    (file,) = mail.iter_attachments()
    assert file.get_filename().endswith(".csv")
    assert "'=cmd()" in file.get_content()
    message = NotificationMessage.objects.get()
    assert (message.about, message.state, message.task) == ("report", "sent", 7)


def test_a_mailed_report_names_the_partition_that_it_covers(mails, channel, settings):
    be_partition(settings, "b")
    put(channel)

    send()

    assert "It is about partition b only." in mails.mails[0].get_body(("plain",)).get_content()


@pytest.mark.parametrize("report", mailings.REPORTS)
def test_every_report_can_be_mailed(mails, channel, report):
    make_job("books")
    put(channel, report=report, as_html=False, attaches_csv=False)

    send()

    (mail,) = mails.mails
    assert f"Report “{report}”" in mail.get_body(("plain",)).get_content()
    assert not list(mail.iter_attachments())


def test_the_template_of_a_mailing_follows_changes_of_the_mailing(channel):
    put(channel)
    template = TaskTemplate.objects.get(is_built_in=False)
    assert (template.urn, template.kind, template.unique) == ("report-weekly", "mail_report", True)
    assert template.schedule == MONDAY

    put(channel, schedule={"cron": "0 8 * * 1"})
    assert TaskTemplate.objects.get(is_built_in=False).schedule == {"cron": "0 8 * * 1"}
    mailings.remove_mailing("weekly", made_by="vera")
    assert not TaskTemplate.objects.filter(is_built_in=False).exists()


def test_the_task_of_a_removed_or_disabled_mailing_fails_with_its_name(channel):
    with pytest.raises(NotSent, match="there is no report mailing weekly"):
        send()
    put(channel)
    NotificationChannel.objects.update(is_enabled=False)
    with pytest.raises(NotSent, match="the channel mail is disabled"):
        send()


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ({"name": "a b"}, "name"),
        ({"report": "weather"}, "report"),
        ({"filter": {"colour": "red"}}, "filter.colour"),
        ({"filter": {"since": "2030-01-01T00:00:00Z"}}, "filter"),
        ({"filter": []}, "filter"),
        ({"channel": 10**9}, "channel"),
        ({"recipients": ["nobody"]}, "recipients"),
        ({"schedule": {"cron": "hourly"}}, "schedule.cron"),
        ({"schedule": {"cron": "0 7 * * 1", "time_zone": "Mars"}}, "schedule.time_zone"),
    ],
)
def test_an_invalid_mailing_is_refused_by_field(channel, facts, field):
    body = {"name": "weekly", "report": "history", "channel": channel.pk, "schedule": MONDAY, **facts}

    answer = client_of(ADMINISTRATOR).post("/api/v1/report-mailings/", body)

    assert_problem(answer, 400, "invalid", fields=[field])
    assert not ReportMailing.objects.exists()
    assert not TaskTemplate.objects.filter(is_built_in=False).exists()


def test_a_channel_with_a_mailing_cannot_be_deleted(channel):
    put(channel)

    answer = client_of(ADMINISTRATOR).delete(f"/api/v1/notification-channels/{channel.pk}/")

    assert answer.status_code == 409
    assert "weekly" in answer.json()["detail"]


def test_a_mailing_is_stored_changed_and_removed_on_its_pages(channel):
    administrator = client_of(ADMINISTRATOR)
    facts = {"name": "weekly", "report": "results", "hours": "168", "channel": str(channel.pk), "filter": '{"job": 1}'}
    facts |= {"recipients": "a@a.example\nb@a.example\n", "cron": "0 7 * * 1", "time_zone": "Europe/Berlin"}

    made = administrator.post("/notifications/mailings/new/", facts, format="multipart")
    again = administrator.post("/notifications/mailings/new/", facts, format="multipart")

    mailing = ReportMailing.objects.get()
    assert made.status_code == 302
    assert again.context["form"].errors.keys() == {"name"}
    assert (mailing.filter, mailing.hours, mailing.as_html) == ({"job": 1}, 168, False)
    assert mailing.recipients == ["a@a.example", "b@a.example"]
    assert TaskTemplate.objects.get(urn="report-weekly").schedule == MONDAY
    form = administrator.get(f"/notifications/mailings/{mailing.pk}/").context["form"]
    assert (form["cron"].value(), form["recipients"].value()) == ("0 7 * * 1", "a@a.example\nb@a.example")

    shown = client_of(OPERATOR).get("/notifications/").content.decode()
    assert "0 7 * * 1 (Europe/Berlin)" in shown
    assert f"/notifications/mailings/{mailing.pk}/" not in shown

    changed = {**facts, "name": "other", "cron": "", "time_zone": "", "every_minutes": "60"}
    administrator.post(f"/notifications/mailings/{mailing.pk}/", changed, format="multipart")
    assert TaskTemplate.objects.get(urn="report-weekly").schedule == {"every_minutes": 60}
    assert ReportMailing.objects.get().name == "weekly"

    administrator.post(f"/notifications/mailings/{mailing.pk}/remove/")
    assert not ReportMailing.objects.exists()
    assert not TaskTemplate.objects.filter(urn="report-weekly").exists()


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ({"cron": "never"}, "cron"),
        ({"cron": ""}, "cron"),
        ({"time_zone": "Mars"}, "time_zone"),
        ({"filter": "{"}, "filter"),
        ({"filter": '{"age": 1}'}, "filter"),
        ({"hours": "0"}, "hours"),
        ({"recipients": "nobody"}, "recipients"),
        ({"channel": "999"}, "channel"),
        ({"name": "a b"}, "name"),
    ],
)
def test_an_invalid_mailing_is_named_at_its_field(channel, facts, field):
    usual = {"name": "weekly", "report": "results", "hours": "24", "channel": str(channel.pk), "cron": "0 7 * * 1"}

    answer = client_of(ADMINISTRATOR).post("/notifications/mailings/new/", {**usual, **facts}, format="multipart")

    assert answer.context["form"].errors.keys() == {field}
    assert not ReportMailing.objects.exists()


def test_a_command_stores_and_replaces_a_mailing(channel, monkeypatch):
    # A failed command closes the connection, which would end the transaction of the test.
    monkeypatch.setattr(connections["default"], "close", lambda: None)
    words = ["notification", "put-mailing", "weekly", "--report", "results", "--channel", "mail"]

    call_command(*words, "--cron", "0 7 * * 1", "--time-zone", "Europe/Berlin", "--recipient", "a@a.example")
    call_command(*words, "--every-minutes", "60", "--only-text", "--no-csv", "--filter", '{"job": 1}')

    mailing = ReportMailing.objects.get()
    assert (mailing.recipients, mailing.as_html, mailing.attaches_csv, mailing.filter) == ([], False, False, {"job": 1})
    assert TaskTemplate.objects.get(urn="report-weekly").schedule == {"every_minutes": 60}
    for wrong in (["--cron", "never"], ["--filter", "{"], ["--every-minutes", "5", "--hours", "0"]):
        with pytest.raises(CommandError) as refused:
            call_command(*words, *wrong)
        assert refused.value.returncode == 2


def test_an_operator_sends_a_mailing_now_and_changes_none(channel):
    mailing = put(channel)
    client = client_of(OPERATOR)

    assert client.get(f"/api/v1/report-mailings/{mailing.pk}/").json()["schedule"] == MONDAY
    task = client.post("/api/v1/tasks/", {"kind": "mail_report", "arguments": {"mailing": "weekly"}})
    assert task.status_code == 201, task.content
    assert client.delete(f"/api/v1/report-mailings/{mailing.pk}/").status_code == 403
    assert "0 7 * * 1 (Europe/Berlin)" in client.get("/notifications/").content.decode()
    assert task_verbs.create(kind="mail_report", arguments={"mailing": "weekly"}, made_by="olga").group == "generic"


def test_all_attempts_of_a_mail_are_one_message_which_is_sent_once(mails, channel):
    put(channel)
    port = channel.configuration["port"]
    NotificationChannel.objects.update(configuration={**channel.configuration, "port": 1})
    with pytest.raises(NotSent):
        attempt(0, is_last=False)
    NotificationChannel.objects.update(configuration={**channel.configuration, "port": port})

    answer = attempt(1)
    # The process was killed before the end of its task.
    again = attempt(2)

    message = NotificationMessage.objects.get()
    assert (message.state, message.attempts, len(mails.mails)) == ("sent", 2, 1)
    assert again == answer == message.answer


def attempt(retry, *, is_last=True):
    context = TaskContext(task=7, group="generic", retry_number=retry, is_last_retry=is_last)
    return mailings.mail_report(context, {"mailing": "weekly"})
