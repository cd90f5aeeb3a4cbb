"""Proves that users store, test, mute and delete channels and rules on pages, as their roles permit."""

import re

import pytest

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from jobs.notices import verbs
from jobs.notices.channels.signing import new_secret
from jobs.notices.models import NotificationChannel, NotificationMessage, NotificationRule
from tests.support.api import client_of
from tests.support.factories import make_job

pytestmark = pytest.mark.django_db

SECRET = new_secret()
HOOK = {"url": "http://a.example/", "secret": SECRET}


@pytest.fixture
def channel():
    return verbs.create_channel(name="hook", kind="webhook", configuration=HOOK, made_by="vera")


def post(client, address, data):
    return client.post(address, data, format="multipart", follow=True)


def test_an_administrator_stores_a_channel_and_a_rule_on_their_pages():
    make_job("books")
    client = client_of(ADMINISTRATOR)
    mail = {
        "name": "mail",
        "configuration.host": "mail.a.example",
        "configuration.port": "25",
        "configuration.security": "none",
        "configuration.sender": "crawl@a.example",
        "configuration.recipients": "ops@a.example\n\nboss@a.example\n",
        "most_an_hour": "7",
        "is_enabled": "on",
    }
    page = post(client, "/notifications/channels/new/email/", mail)
    assert "mail was stored." in page.content.decode()
    stored = NotificationChannel.objects.get()
    assert stored.configuration["recipients"] == ["ops@a.example", "boss@a.example"]

    rule = {"name": "fails", "topics": ["job_fails"], "channels": [stored.pk], "job": "books", "is_enabled": "on"}
    page = post(client, "/notifications/rules/new/", rule)

    assert "fails was stored." in page.content.decode()
    made = NotificationRule.objects.get()
    assert (made.topics, made.job.name, made.notifies_of_end) == (["job_fails"], "books", False)
    page = post(client, f"/notifications/rules/{made.pk}/", {**rule, "topics": ["runs_long"]})
    assert "need a limit in minutes" in page.content.decode()
    page = post(client, f"/notifications/rules/{made.pk}/", {**rule, "job": "none"})
    assert "No job has the name none." in page.content.decode()


def test_a_secret_that_is_left_empty_stays_and_is_never_shown(channel):
    client = client_of(ADMINISTRATOR)
    at = f"/notifications/channels/{channel.pk}/"
    shown = client.get(at).content.decode()
    assert SECRET not in shown
    assert "sealed:" not in shown

    facts = {"name": "hook", "configuration.url": "http://b.example/", "most_an_hour": "20", "is_enabled": "on"}
    post(client, at, facts)

    stored = NotificationChannel.objects.get()
    assert stored.configuration == {**channel.configuration, "url": "http://b.example/"}
    page = post(client, at, {**facts, "configuration.secret": "short"})
    assert "whsec_ and base64" in page.content.decode()
    assert NotificationChannel.objects.get() == stored


def test_an_operator_tests_and_mutes_channels_and_sees_no_form(channel):
    client = client_of(OPERATOR)

    page = post(client, f"/notifications/channels/{channel.pk}/act/", {"test": ""})
    assert "A task sends the test message." in page.content.decode()
    assert "Test of the channel hook" in page.content.decode()
    page = post(client, f"/notifications/channels/{channel.pk}/act/", {"mute": ""})
    assert "muted until" in page.content.decode()

    assert NotificationMessage.objects.get().about == "test"
    assert client.get(f"/notifications/channels/{channel.pk}/").status_code == 403
    assert client.get("/notifications/rules/new/").status_code == 403
    assert (
        client.post(f"/notifications/channels/{channel.pk}/act/", {"delete": ""}, format="multipart").status_code == 403
    )
    assert NotificationChannel.objects.exists()


def test_a_viewer_sees_channels_and_changes_nothing(channel):
    client = client_of(VIEWER)
    page = client.get("/notifications/").content.decode()

    assert "hook" in page
    assert "<button" not in page.partition("<main")[2]
    assert (
        client.post(f"/notifications/channels/{channel.pk}/act/", {"test": ""}, format="multipart").status_code == 403
    )


def test_an_administrator_deletes_a_channel_and_a_rule(channel):
    rule = verbs.create_rule(name="fails", channels=[channel.pk], made_by="vera")
    client = client_of(ADMINISTRATOR)

    post(client, f"/notifications/rules/{rule.pk}/act/", {"delete": ""})
    post(client, f"/notifications/channels/{channel.pk}/act/", {"delete": ""})

    assert not NotificationRule.objects.exists()
    assert not NotificationChannel.objects.exists()


def test_deletions_require_a_confirmation(channel):
    verbs.create_rule(name="fails", channels=[channel.pk], made_by="vera")

    page = client_of(ADMINISTRATOR).get("/notifications/").content.decode()

    assert "This deletes the channel and its messages." in page
    assert page.count('name="delete"') == 2
    assert 'name="delete"' not in re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)


def test_the_set_up_pages_show_channels_and_test_them(channel):
    verbs.create_rule(name="fails", channels=[channel.pk], made_by="vera")
    client = client_of(OPERATOR)
    at = "/admin/notices/notificationchannel/"
    chosen = {"action": "send_test", "_selected_action": [channel.pk]}

    assert "Tasks send the test messages." in post(client, at, chosen).content.decode()
    assert NotificationMessage.objects.get().about == "test"
    shown = client.get(f"{at}{channel.pk}/change/").content.decode()
    assert "(secret)" in shown
    assert "sealed:" not in shown
    for model in ("notificationrule", "notificationmessage"):
        assert client.get(f"/admin/notices/{model}/").status_code == 200


def test_a_viewer_cannot_test_on_the_set_up_pages(channel):
    client = client_of(VIEWER)

    post(client, "/admin/notices/notificationchannel/", {"action": "send_test", "_selected_action": [channel.pk]})

    assert not NotificationMessage.objects.exists()
