"""Proves logins at a provider of OpenID Connect. The provider is a real, separate process on a loopback port."""

import datetime as dt
import socket
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
import requests
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from crawlctl.access.api_tokens import verbs as api_tokens
from crawlctl.access.single_sign_on import provider as our_side
from crawlctl.live.session_permissions import NOT_LOGGED_IN, judge_sessions
from crawlctl.models import ApiToken, ProviderIdentity
from jobs.settings.logins import ISSUER, PASSWORD_LOGIN, SESSION, TOKENS
from nodes.models import NodeEvent
from tests.support.api import PASSWORD, make_user
from tests.support.single_sign_on import BEGIN, running_provider
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

ANSWER = "/login/provider/answer/"


@pytest.fixture(scope="module")
def process():
    with running_provider(f"http://testserver{ANSWER}") as running:
        yield running


@pytest.fixture
def provider(process, settings):
    process.behave()
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **process.settings}
    return process


@pytest.fixture
def change_setting(settings):
    """Return a function that changes further settings."""

    def change_setting(setting, value):
        settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, setting.path: value}

    return change_setting


def is_logged_in(client):
    return client.get("/account/").status_code == 200


def roles_of(name):
    return sorted(User.objects.get(username=name).groups.values_list("name", flat=True))


def journal():
    return list(NodeEvent.objects.order_by("id").values_list("message", flat=True))


# --- Users and roles -----------------------------------------------------------------------------


def test_the_first_login_creates_a_user_with_the_roles_of_its_groups(provider, client):
    response = provider.log_in(client)

    assert (response.status_code, response["Location"]) == (302, "/")
    assert client.get("/").status_code == 200
    assert roles_of("vera") == ["viewer"]
    assert not User.objects.get(username="vera").has_usable_password()
    assert journal() == ["user vera was created by the provider", "vera logged in at the provider"]


def test_a_user_is_known_by_its_subject_after_its_name_has_changed(provider, client):
    provider.log_in(client)
    provider.behave(claims={"preferred_username": "vera.new"})

    provider.log_in(Client())

    assert list(User.objects.values_list("username", flat=True)) == ["vera"]


def test_lost_groups_end_the_role_at_the_next_login_in_all_sessions(provider, client):
    provider.log_in(client)
    provider.behave(groups={})

    refused = provider.log_in(Client())

    assert refused.status_code == 403
    assert b"give you no role here" in refused.content
    assert roles_of("vera") == []
    assert client.get("/").status_code == 403
    assert journal()[-1] == 'user vera was changed by the provider: roles ["viewer"] → []'


def test_other_groups_give_another_role_at_the_next_login(provider, client):
    provider.log_in(client)
    provider.behave(groups={"vera": ["crawl", "unknown"]})

    provider.log_in(Client())

    assert roles_of("vera") == ["operator"]


def test_a_user_without_a_group_is_refused_and_not_stored(provider, client):
    assert provider.log_in(client, user="nobody").status_code == 403
    assert not User.objects.exists()
    assert not is_logged_in(client)


def test_an_inactive_user_is_refused(provider, client):
    provider.log_in(Client())
    User.objects.update(is_active=False)

    assert provider.log_in(client).status_code == 403
    assert not is_logged_in(client)


def test_the_name_of_a_local_user_is_refused_until_the_user_is_linked(provider, client, in_one_transaction):
    make_user("operator", name="vera", password=PASSWORD)
    refused = provider.log_in(client)
    subject = refused.content.decode().partition("crawlctl sso link vera ")[2].split("<")[0].strip()

    call_command("sso", "link", "vera", subject)
    accepted = provider.log_in(client)

    assert (refused.status_code, accepted.status_code) == (403, 302)
    assert roles_of("vera") == ["viewer"]
    assert not User.objects.get().has_usable_password()
    with pytest.raises(CommandError, match="belongs to the user vera"):
        call_command("sso", "link", make_user(name="otto").username, subject)


def test_a_user_that_is_unlinked_does_not_log_in_at_the_provider(provider, client, in_one_transaction):
    earlier = Client()
    provider.log_in(earlier)
    vera = User.objects.get(username="vera")
    api_tokens.create(owner=vera, name="night", scope="viewer", made_by="vera")

    call_command("sso", "unlink", "vera")

    assert not is_logged_in(earlier)
    assert provider.log_in(client).status_code == 403
    assert roles_of("vera") == ["viewer"]
    assert not ApiToken.objects.exists()
    with pytest.raises(CommandError, match="does not log in at a provider"):
        call_command("sso", "unlink", "vera")


def test_a_superuser_cannot_log_in_at_a_provider(provider, in_one_transaction):
    make_user(name="root", is_superuser=True)

    with pytest.raises(CommandError, match="root is a superuser"):
        call_command("sso", "link", "root", "1")


@each_row("subject", ["", "a" * 256, "a\0b"])
def test_a_text_that_is_no_subject_of_a_provider_is_not_linked_to_a_user(provider, subject, in_one_transaction):
    make_user(name="otto")

    with pytest.raises(CommandError, match="subject: "):
        call_command("sso", "link", "otto", subject)


# --- Answers that prove nothing ------------------------------------------------------------------


@each_row(
    "fault",
    [
        {"claims": {"aud": "another client"}},
        {"claims": {"aud": ["another client"]}},
        {"claims": {"azp": "another client"}},
        {"claims": {"nonce": "another nonce"}},
        {"claims": {"iss": "https://another.example"}},
        {"claims": {"exp": 1_000_000_000}},
        {"claims": {"sub": ""}},
        {"signature": "another key"},
        {"signature": "secret"},
        {"signature": "none"},
        {"absent": ["id_token"]},
        {"subject_of_userinfo": "another user"},
    ],
    ids=str,
)
def test_a_wrong_id_token_logs_no_user_in(provider, client, fault):
    provider.behave(**fault)

    assert provider.log_in(client).status_code == 400
    assert not User.objects.exists()
    assert not is_logged_in(client)


def test_an_answer_of_the_provider_is_accepted_once_even_with_a_copied_cookie(provider, client):
    address = provider.answer(client.get(BEGIN)["Location"])
    copied = client.cookies["crawlctl_login"].value
    assert client.get(address).status_code == 302
    thief = Client()

    assert thief.get(address).status_code == 400
    thief.cookies["crawlctl_login"] = copied
    assert thief.get(address).status_code == 400
    assert not is_logged_in(thief)


def test_an_answer_to_the_login_attempt_of_another_browser_is_refused(provider, client):
    client.get(BEGIN)

    assert client.get(provider.answer(Client().get(BEGIN)["Location"])).status_code == 400
    assert not is_logged_in(client)


@each_row("query", ["", "?state=x", "?error=access_denied&error_description=Call+0800", "?code=&state=", "?code=x"])
def test_an_invalid_answer_is_refused_and_its_text_is_not_shown(provider, client, query):
    client.get(BEGIN)

    response = client.get(f"{ANSWER}{query}")

    assert 400 <= response.status_code < 500
    assert b"0800" not in response.content


def test_a_code_without_its_verifier_gives_no_login(provider):
    address, attempt = our_side.begin(f"http://testserver{ANSWER}")
    answer = parse_qs(urlsplit(provider.answer(address)).query)

    with pytest.raises(our_side.AnswerRefused):
        our_side.complete(replace(attempt, code_verifier="a" * 48), state=attempt.state, code=answer["code"][0])


# --- The provider is down ------------------------------------------------------------------------


def test_while_the_provider_is_down_a_login_link_still_works(
    provider, client, change_setting, in_one_transaction, capsys
):
    make_user("viewer", name="vera")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        change_setting(ISSUER, f"http://127.0.0.1:{closed.getsockname()[1]}")

    response = client.get(BEGIN)

    assert response.status_code == 503
    assert b"login link" in response.content
    call_command("sso", "login-link", "vera")
    link = urlsplit(capsys.readouterr().out.strip())
    assert client.post(link.path, {"link": parse_qs(link.query)["link"][0]})["Location"] == "/"
    assert is_logged_in(client)


def test_the_login_does_not_wait_long_for_a_silent_provider(provider, client, change_setting, monkeypatch):
    monkeypatch.setattr(our_side, "_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        change_setting(ISSUER, f"http://127.0.0.1:{silent.getsockname()[1]}")

        assert client.get(BEGIN).status_code == 503


def test_metadata_of_another_issuer_are_refused(provider, client, change_setting):
    change_setting(ISSUER, f"{provider.issuer}/")

    assert client.get(BEGIN).status_code == 503


def test_without_a_provider_its_pages_do_not_exist(client):
    assert [client.get(f"{BEGIN}{page}").status_code for page in ("", "answer/", "end/")] == [404, 404, 404]
    assert b"single sign-on" not in client.get("/login/").content


# --- Sessions ------------------------------------------------------------------------------------


@each_row(
    ("onward", "leads_to"),
    [
        ("/hosts/?state=open", "/hosts/?state=open"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("/\\evil.example/", "/"),
        ("javascript:alert(1)", "/"),
    ],
)
def test_a_login_redirects_only_to_our_own_pages(provider, client, onward, leads_to):
    assert provider.log_in(client, onward=onward)["Location"] == leads_to
    assert client.get(BEGIN, {"next": onward})["Location"] == leads_to


def test_the_login_page_passes_on_the_requested_page(provider, client):
    page = client.get("/login/", {"next": "/hosts/?state=open"}).content.decode()

    assert f'href="{BEGIN}?next=%2Fhosts%2F%3Fstate%3Dopen"' in page


def test_a_session_ends_after_its_lifetime_even_if_it_is_used(provider, client, change_setting):
    change_setting(SESSION, dt.timedelta(minutes=2))
    provider.log_in(client)
    key = client.cookies["sessionid"].value
    ends = Session.objects.get(pk=key).expire_date
    session = client.session
    session["something"] = "new"
    session.save()

    assert abs((ends - timezone.now()).total_seconds() - 120) < 60
    assert Session.objects.get(pk=key).expire_date == ends
    Session.objects.update(expire_date=timezone.now())
    assert judge_sessions([key]) == {key: NOT_LOGGED_IN}
    assert not is_logged_in(client)


def test_after_a_log_out_a_link_leads_to_the_log_out_of_the_provider(provider, client):
    provider.log_in(client)

    left = client.post("/logout/")["Location"]

    assert f'href="{BEGIN}end/"' in client.get(left).content.decode()
    end = client.get(f"{BEGIN}end/")["Location"]
    assert end.startswith(f"{provider.issuer}/logout/?")
    assert requests.get(end, cookies={"user": "vera"}, timeout=10).status_code == 200


def test_a_log_out_of_a_password_session_names_no_provider(provider, client):
    client.force_login(make_user("viewer"))

    assert client.post("/logout/")["Location"] == "/login/"


# --- Passwords, links and tokens -----------------------------------------------------------------


def test_passwords_that_are_switched_off_are_not_accepted_anywhere(provider, client, change_setting):
    make_user("viewer", name="otto", password=PASSWORD)
    change_setting(PASSWORD_LOGIN, False)
    given = {"username": "otto", "password": PASSWORD}

    assert b'type="password"' not in client.get("/login/").content
    assert client.post("/login/", given).status_code == 403
    refused = client.post("/api/v1/token/", given, content_type="application/json")
    assert (refused.status_code, refused.json()["detail"]) == (
        403,
        "Passwords are switched off. Use an API token of your account.",
    )
    assert not client.login(**given)
    assert provider.log_in(client).status_code == 302


@pytest.fixture
def link(in_one_transaction, capsys):
    """Return a login link of the user vera. The provider has no account of this name."""
    make_user("viewer", name="vera")
    call_command("sso", "login-link", "vera")
    return parse_qs(urlsplit(capsys.readouterr().out.strip()).query)["link"][0]


def test_a_login_link_works_once_and_only_after_a_confirmation(client, link):
    assert client.get("/login/link/", {"link": link}).status_code == 200
    assert not is_logged_in(client)

    first, second = (each.post("/login/link/", {"link": link}).status_code for each in (client, Client()))

    assert (first, second) == (302, 403)
    assert is_logged_in(client)
    assert [line.split(" made ")[-1] for line in journal()] == ["a login link of vera", "vera logged in with a link"]


def test_a_login_link_ends_after_ten_minutes(client, link, settings):
    assert settings.PASSWORD_RESET_TIMEOUT == 600
    settings.PASSWORD_RESET_TIMEOUT = -1

    assert client.post("/login/link/", {"link": link}).status_code == 403


@each_row("change", [lambda text: f"{text}x", lambda text: f"9{text}", lambda _text: "", lambda _text: "²-a-b"])
def test_a_wrong_login_link_logs_no_user_in(client, link, change):
    assert client.post("/login/link/", {"link": change(link)}).status_code == 403
    assert not is_logged_in(client)


def test_an_inactive_user_has_no_login_link(client, link):
    User.objects.update(is_active=False)

    assert client.post("/login/link/", {"link": link}).status_code == 403
    with pytest.raises(CommandError, match="not active"):
        call_command("sso", "login-link", "vera")


def test_api_tokens_are_suspended_if_their_user_does_not_log_in_for_long(provider, client, change_setting):
    provider.log_in(client)
    owner = User.objects.get(username="vera")
    text = api_tokens.create(owner=owner, name="night", scope="viewer", made_by="vera")[1]

    def status():
        return Client().get("/api/v1/jobs/", headers={"Authorization": f"Bearer {text}"}).status_code

    before = status()
    ProviderIdentity.objects.update(logged_in_at=timezone.now() - TOKENS.default)
    stale = status()
    provider.log_in(Client())

    assert (before, stale, status()) == (200, 401, 200)
