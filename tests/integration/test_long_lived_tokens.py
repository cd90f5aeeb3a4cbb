"""Proves long-lived API tokens: their permissions, their end, their limits, and their page of the account."""

import datetime as dt
import re

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from crawlctl.access import logins
from crawlctl.access.api_tokens import verbs
from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from crawlctl.models import ApiToken, LoginAttempt
from nodes.errors import Refused
from nodes.models import NodeEvent
from tests.support.api import assert_problem, client_of, make_job, make_user, token_client_of
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

TOKENS = "/api/v1/api-tokens/"
JOBS = "/api/v1/jobs/"


@pytest.fixture
def oda():
    return make_user(OPERATOR, name="oda")


def make_token(owner, *, scope=VIEWER, name="nightly", days=None):
    return verbs.create(owner=owner, name=name, scope=scope, days=days, made_by=owner.username)[1]


def client_with(text):
    client = APIClient(enforce_csrf_checks=True)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


def test_a_token_created_by_the_api_gives_access():
    made = token_client_of(OPERATOR).post(TOKENS, {"name": "nightly", "scope": VIEWER, "days": 30})

    assert made.status_code == 201
    assert client_with(made.json()["token"]).get(JOBS).status_code == 200
    expires_in = dt.datetime.fromisoformat(made.json()["expires_at"]) - timezone.now()
    assert dt.timedelta(days=29) < expires_in <= dt.timedelta(days=30)


def test_no_table_and_no_later_answer_has_the_text_of_a_token():
    client = client_of(VIEWER)
    made = client.post(TOKENS, {"name": "nightly", "scope": VIEWER}).json()

    stored = f"{ApiToken.objects.values().get()} {NodeEvent.objects.values().get()}"

    assert made["token"] not in stored
    assert "token" not in client.get(f"{TOKENS}{made['id']}/").json()
    assert made["token"] not in client.get(TOKENS).content.decode()


def test_no_answer_with_a_token_is_kept_for_a_repetition():
    refused = client_of(VIEWER).post(TOKENS, {"name": "a", "scope": VIEWER}, headers={"Idempotency-Key": "k"})

    assert_problem(refused, 400, "invalid", fields=["Idempotency-Key"])
    assert not ApiToken.objects.exists()


def test_a_scope_narrows_the_rights_of_the_owner(oda):
    start = f"{JOBS}{make_job().pk}/start/"

    assert_problem(client_with(make_token(oda)).post(start), 403, "permission_denied")
    assert client_with(make_token(oda, scope=OPERATOR, name="wide")).post(start).status_code == 200


def test_a_scope_narrows_even_a_superuser():
    text = make_token(make_user(name="root", is_superuser=True))

    assert_problem(client_with(text).post(f"{JOBS}{make_job().pk}/start/"), 403, "permission_denied")


def test_a_token_has_at_most_the_present_rights_of_its_owner(oda):
    client, start = client_with(make_token(oda, scope=OPERATOR)), f"{JOBS}{make_job().pk}/start/"

    oda.groups.set(Group.objects.filter(name=VIEWER))

    assert_problem(client.post(start), 403, "permission_denied")
    assert client.get(JOBS).status_code == 200


def test_no_token_has_a_wider_scope_than_its_owner():
    refused = client_of(OPERATOR).post(TOKENS, {"name": "a", "scope": ADMINISTRATOR})

    assert_problem(refused, 400, "invalid", fields=["scope"])


def test_a_token_cannot_be_used_to_manage_tokens():
    root = make_user(name="root", is_superuser=True)
    client = client_with(make_token(root, scope=ADMINISTRATOR))

    assert_problem(client.get(TOKENS), 403, "permission_denied")
    assert_problem(client.post(TOKENS, {"name": "b", "scope": VIEWER}), 403, "permission_denied")
    assert_problem(client.delete(f"{TOKENS}{ApiToken.objects.get().pk}/"), 403, "permission_denied")


def _expire(owner):
    ApiToken.objects.update(expires_at=timezone.now() - dt.timedelta(seconds=1))


def _revoke(owner):
    verbs.revoke(ApiToken.objects.get().pk, among=verbs.visible_to(owner), made_by="oda")


def _disable(owner):
    owner.is_active = False
    owner.save()


def _delete(owner):
    owner.delete()


@each_row("end", [_expire, _revoke, _disable, _delete])
def test_a_revoked_or_expired_token_gives_no_access(end, oda):
    client = client_with(make_token(oda))
    assert client.get(JOBS).status_code == 200

    end(User.objects.get(pk=oda.pk))

    assert_problem(client.get(JOBS), 401, "authentication_failed")


@each_row("text", ["", "x", "two words", "\u00e9", "a\0b", "x" * 10_000])
def test_a_wrong_token_gives_no_access(text, oda):
    assert_problem(client_with(f"crawlctl_api_{text}").get(JOBS), 401, "authentication_failed")


def test_wrong_tokens_are_limited_like_wrong_passwords(oda, monkeypatch):
    monkeypatch.setattr(logins, "MOST_OF_AN_ADDRESS", 3)
    right = client_with(make_token(oda))
    for number in range(logins.MOST_OF_AN_ADDRESS):
        client_with(f"crawlctl_api_{number}").get(JOBS)

    for closed in (client_with("crawlctl_api_another"), right):
        refused = closed.get(JOBS)
        assert_problem(refused, 429, "throttled")
        assert 0 < int(refused["Retry-After"]) <= logins.WINDOW.total_seconds() + 1
    assert right.get(JOBS, REMOTE_ADDR="192.0.2.7").status_code == 200


def test_wrong_attempts_with_a_revoked_token_block_no_other_token(oda):
    revoked, right = client_with("crawlctl_api_revoked"), client_with(make_token(oda))

    codes = [revoked.get(JOBS).status_code for _ in range(logins.MOST_OF_A_NAME + 2)]

    assert codes == [401] * logins.MOST_OF_A_NAME + [429] * 2
    assert LoginAttempt.objects.count() == logins.MOST_OF_A_NAME
    assert right.get(JOBS).status_code == 200


def test_the_last_use_of_a_token_is_recorded_to_the_minute(oda):
    client = client_with(make_token(oda))

    client.get(JOBS)
    first = ApiToken.objects.get().last_used_at
    client.get(JOBS)

    assert timezone.now() - first < dt.timedelta(minutes=1)
    assert ApiToken.objects.get().last_used_at == first


def test_a_token_reads_the_metrics(oda):
    assert client_with(make_token(oda)).get("/metrics").status_code == 200


def test_only_administrators_see_and_revoke_the_tokens_of_others(oda):
    make_token(oda)
    token = f"{TOKENS}{ApiToken.objects.get().pk}/"
    operator, administrator = client_of(OPERATOR), client_of(ADMINISTRATOR)

    assert operator.get(TOKENS).json()["results"] == []
    assert_problem(operator.delete(token), 404, "not_found")
    assert [row["owner"] for row in administrator.get(TOKENS, {"owner": "oda"}).json()["results"]] == ["oda"]
    assert administrator.get(TOKENS, {"owner": "otto"}).json()["results"] == []
    assert administrator.delete(token).status_code == 204


def test_a_user_has_a_limited_number_of_tokens(oda, monkeypatch):
    monkeypatch.setattr(verbs, "MOST_OF_A_USER", 1)
    make_token(oda)

    with pytest.raises(Refused, match="Revoke one first"):
        make_token(oda, name="another")


@each_row(
    ("facts", "fields"),
    [
        ({"name": "a\nb", "scope": VIEWER}, ["name"]),
        ({"name": "a", "scope": "root"}, ["scope"]),
        ({"name": "a", "scope": VIEWER, "days": 0}, ["days"]),
    ],
)
def test_an_invalid_token_is_refused_by_its_field(facts, fields):
    assert_problem(client_of(VIEWER).post(TOKENS, facts), 400, "invalid", fields=fields)


def test_a_token_name_in_use_is_refused_only_for_the_same_owner():
    client, wanted = client_of(VIEWER), {"name": "nightly", "scope": VIEWER}
    client.post(TOKENS, wanted)

    assert_problem(client.post(TOKENS, wanted), 409, "name_taken", fields=["name"])
    assert client_of(OPERATOR).post(TOKENS, wanted).status_code == 201


# --- The page --------------------------------------------------------------------------------------


def test_the_page_creates_shows_and_revokes_a_token(oda):
    client = Client()
    client.force_login(oda)

    page = client.post("/account/tokens/new/", {"name": "nightly", "scope": VIEWER, "days": "7"}).content.decode()
    text = re.search(r"<code>(.*?)</code>", page)[1]

    assert client_with(text).get(JOBS).status_code == 200
    assert text not in client.get("/account/").content.decode()

    client.post(f"/account/tokens/{ApiToken.objects.get().pk}/revoke/")

    assert_problem(client_with(text).get(JOBS), 401, "authentication_failed")


def test_the_page_of_a_token_names_an_invalid_field_and_keeps_the_input(oda):
    client = Client()
    client.force_login(oda)

    page = client.post("/account/tokens/new/", {"name": "nightly", "scope": VIEWER, "days": "x"}).content.decode()

    assert re.search(r'<small id="problem-days"[^>]*>[^<]*whole number of days', page)
    assert re.search(r'<input name="days"[^>]*aria-describedby="days-help problem-days"[^>]*aria-invalid="true"', page)
    assert 'value="nightly"' in page
    assert not ApiToken.objects.exists()


def test_another_user_cannot_revoke_a_token_on_the_page(oda):
    make_token(oda)
    client = Client()
    client.force_login(make_user(OPERATOR, name="otto"))

    assert client.post(f"/account/tokens/{ApiToken.objects.get().pk}/revoke/").status_code == 404
    assert ApiToken.objects.exists()


# --- The command -----------------------------------------------------------------------------------


def test_the_command_creates_lists_and_revokes_a_token(oda, in_one_transaction, capsys):
    call_command("token", "create", "oda", "nightly", "--scope", OPERATOR)
    client = client_with(capsys.readouterr().out.strip())
    assert client.get(JOBS).status_code == 200

    call_command("token", "list", "oda")
    assert capsys.readouterr().out.startswith("oda: nightly, scope operator, expires: never, last used: 2")

    call_command("token", "revoke", "oda", "nightly")
    assert client.get(JOBS).status_code == 401


@each_row(
    ("words", "says"),
    [
        (["create", "otto", "a"], "No user has the name 'otto'."),
        (["create", "oda", "a", "--scope", ADMINISTRATOR], "scope: "),
        (["create", "oda", "a", "--days", "0"], "days: "),
        (["revoke", "oda", "a"], "oda has no API token with the name 'a'."),
    ],
)
def test_invalid_input_of_the_command_is_named(words, says, oda, in_one_transaction):
    with pytest.raises(CommandError, match=says) as refused:
        call_command("token", *words)

    assert refused.value.returncode == 2
