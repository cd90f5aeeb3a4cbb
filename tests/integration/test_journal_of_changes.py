"""The journals show each changed field before and after a change, with the author, and never a secret."""

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from jobs.models import JobEvent
from nodes.membership.changes import differences, in_words
from nodes.models import NodeEvent
from tests.support.api import client_of, make_user, make_world

pytestmark = pytest.mark.django_db


@pytest.fixture
def administrator():
    return client_of(ADMINISTRATOR)


@pytest.fixture
def world():
    return make_world()


def newest():
    return NodeEvent.objects.filter(kind=NodeEvent.Kind.CHANGED).order_by("-id").first()


def changes_of(event):
    return {name: (pair["before"], pair["after"]) for name, pair in event.detail["changes"].items()}


def test_a_changed_job_has_each_field_before_and_after(administrator, world):
    seeds = [{"urls": ["http://other.test/"], "policy": None, "tag": "x"}]
    change = {"priority": 1, "specification": {"scope": "host"}, "recrawl_after": None, "seeds": seeds}
    administrator.patch(f"/api/v1/jobs/{world.job.pk}/", change)

    event = JobEvent.objects.filter(kind="changed").get()

    assert event.made_by == "a administrator"
    assert changes_of(event) == {
        "priority": (5, 1),
        "specification": ({}, None),
        "specification.scope": (None, "host"),
        "seeds": ([{"urls": ["http://docs.test/"], "policy": world.policy.pk, "tag": ""}], seeds),
    }
    assert event.message.startswith("was changed: ")
    assert "priority 5 → 1" in event.message


def test_a_save_without_a_change_is_not_recorded(administrator, world):
    for address in (f"/api/v1/jobs/{world.job.pk}/", f"/api/v1/policies/{world.policy.pk}/"):
        administrator.put(address, administrator.get(address).json())

    assert not JobEvent.objects.filter(kind="changed").exists()
    assert newest() is None


def test_the_journal_records_a_policy_that_is_made_changed_and_deleted(administrator):
    address = administrator.post("/api/v1/policies/", {"name": "slow", "min_gap": 1}).json()["id"]
    made = newest()
    administrator.patch(
        f"/api/v1/policies/{address}/", {"min_gap": 2, "rules": [{"pattern": "a.test", "denies": True}]}
    )
    changed = newest()
    administrator.delete(f"/api/v1/policies/{address}/")

    assert made.message == "policy slow was created by a administrator"
    assert changed.message.startswith("policy slow was changed by a administrator: min_gap 1.0 → 2.0, rules [] → ")
    assert changes_of(changed)["min_gap"] == (1.0, 2.0)
    assert changes_of(changed)["rules"][1][0]["pattern"] == "a.test"
    assert newest().message == "policy slow was deleted by a administrator"


def test_a_changed_connection_is_recorded_without_its_secrets(administrator):
    login = {"name": "docs", "pages": "^https://docs.test/", "hosts": ["docs.test"], "form": "/login"}

    def configuration(secret):
        fields = [{"name": "password", "secret": secret}]
        return {"user_agent": "us/1", "logins": [{**login, "fields": fields}]}

    sent = {"name": "the web", "connector": "web", "configuration": configuration("sentinel-1")}
    made = administrator.post("/api/v1/repositories/", sent)
    change = {"configuration": configuration("sentinel-2")}
    administrator.patch(f"/api/v1/repositories/{made.json()['id']}/", change)

    event = newest()
    assert event.message.startswith("repository the web was changed by a administrator: configuration.logins ")
    assert "(another secret)" in str(event.detail)
    assert "sentinel" not in str([*NodeEvent.objects.values_list("message", "detail")])
    assert "sealed" not in str([*NodeEvent.objects.values_list("message", "detail")])


def test_changed_settings_have_each_value_before_and_after(administrator):
    administrator.put("/api/v1/settings/", {"cluster": {"heartbeat_interval": 1}})

    (event,) = NodeEvent.objects.filter(kind=NodeEvent.Kind.SETTINGS)

    assert event.detail["changes"] == {"cluster.heartbeat_interval": {"before": None, "after": 1}}
    assert event.detail["by"] == "a administrator"


def test_a_changed_user_is_recorded_without_a_password():
    root = make_user(name="root", is_superuser=True, is_staff=True)
    otto = make_user(VIEWER, name="otto", password="sentinel-1")
    visitor = Client()
    visitor.force_login(root)
    form = {"username": "otto", "is_active": "on", "groups": [Group.objects.get(name=OPERATOR).pk]}
    visitor.post(f"/admin/auth/user/{otto.pk}/change/", {**form, "first_name": "", "last_name": "", "email": ""})
    roles = newest()
    passwords = {"password1": "sentinel-2 is long", "password2": "sentinel-2 is long", "usable_password": "true"}
    visitor.post(f"/admin/auth/user/{otto.pk}/password/", passwords)
    password = newest()
    visitor.post(f"/admin/auth/user/{otto.pk}/delete/", {"post": "yes"})

    assert roles.message == 'user otto was changed by root: roles ["viewer"] → ["operator"]'
    assert set(password.detail["changes"]) == {"password"}
    assert newest().message == "user otto was deleted by root"
    assert not User.objects.filter(username="otto").exists()
    journal = str([*NodeEvent.objects.values_list("message", "detail")])
    assert "sentinel" not in journal
    assert "pbkdf2" not in journal


def test_long_values_are_shortened_in_the_journal():
    urls = [f"http://docs.test/{number}" for number in range(100_000)]

    (pair,) = differences({"seeds": []}, {"seeds": urls}).values()

    assert pair["after"] == [*urls[:20], "… and 99,980 more"]
    assert len(in_words({"seeds": pair})) < 200
