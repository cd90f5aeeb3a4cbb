"""Proves that pages have the language of the account or the browser, and that the API is in English."""

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import translation
from django.utils.translation import trans_real

from crawlctl.languages import CODES, ENGLISH, LANGUAGES, speaking
from crawlctl.live.topics import read_screen
from crawlctl.web.navigation import AREAS
from nodes.web import formats
from tests.support.api import make_job, make_user, make_world
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

PASSWORD = "a long phrase of a person"


@pytest.fixture(autouse=True)
def back_to_english():
    yield
    assert translation.get_language() == ENGLISH


def browser(accepts="", user=None):
    client = Client(headers={"accept-language": accepts} if accepts else {})
    if user is not None:
        client.force_login(user)
    return client


def language_of(answer):
    """Return the language that an answer declares, and its first heading."""
    html = answer.content.decode()
    (language,) = re.findall(r'<html lang="([^"]*)"', html)
    assert answer.headers["Content-Language"] == language
    return language, re.search(r"<h1[^>]*>\s*(.*?)\s*</h1>", html, re.DOTALL)[1]


def choose(client, language, **more):
    return client.post(reverse("language"), {"language": language, **more})


# --- The language of a request -------------------------------------------------------------------


@each_row(
    "accepted, expected",
    [
        ("", ("en", "Log in")),
        ("de-AT,de;q=0.9,en;q=0.5", ("de", "Anmelden")),
        ("fr, de;q=0.5", ("de", "Anmelden")),
        ("zh-CN", ("zh-hans", "登录")),
        ("zh", ("zh-hans", "登录")),
        ("fr", ("en", "Log in")),
        ("en-GB, de", ("en", "Log in")),
        ("not a header;;;q=x", ("en", "Log in")),
    ],
)
def test_the_browser_sets_the_language_of_a_visitor_without_a_choice(accepted, expected):
    assert language_of(browser(accepted).get("/login/")) == expected


def test_a_language_chosen_before_the_login_stays_in_the_browser():
    client = browser("de")

    answer = choose(client, "zh-hans", next="/login/?next=/jobs/")

    assert answer.headers["Location"] == "/login/?next=/jobs/"
    assert language_of(client.get("/login/")) == ("zh-hans", "登录")


def test_a_language_chosen_after_the_login_holds_in_each_browser():
    user = make_user("viewer")
    first, other = browser(user=user), browser("zh-CN")
    choose(first, "de")

    other.force_login(user)

    assert language_of(first.get("/account/")) == ("de", "Ihr Konto")
    assert language_of(other.get("/account/")) == ("de", "Ihr Konto")


def test_a_later_choice_of_a_language_replaces_the_first():
    user = make_user("viewer")
    client = browser("zh-CN", user=user)

    choose(client, "de")
    choose(client, "en")

    assert language_of(client.get("/account/")) == ("en", "Your account")


def test_the_language_of_an_account_ends_with_its_login():
    user = make_user("viewer")
    client = browser(user=user)
    choose(client, "de")
    client.cookies.pop("language")

    client.post("/logout/")

    assert language_of(client.get("/login/"))[0] == "en"


@each_row("language", ["", "fr", "DE", "de\x00", "../de"])
def test_an_unknown_language_is_refused(language):
    client = browser()

    answer = choose(client, language)

    assert answer.status_code == 400
    assert "de, en, zh-hans" in answer.content.decode()
    assert "language" not in client.cookies


@each_row("place", ["https://evil.example/", "//evil.example", "javascript:alert(1)", ""])
def test_the_choice_of_a_language_redirects_to_no_other_site(place):
    assert choose(browser(), "de", next=place).headers["Location"] == "/login/"


def test_a_cookie_with_an_unknown_language_is_ignored():
    client = browser("de")
    client.cookies["language"] = "xx"

    assert language_of(client.get("/login/"))[0] == "de"


def test_a_form_of_another_site_cannot_choose_the_language():
    client = Client(enforce_csrf_checks=True)

    assert choose(client, "de").status_code == 403


def test_each_language_is_offered_by_its_own_name():
    html = browser("de").get("/login/").content.decode()

    assert re.findall(r'lang="[^"]*"\s+class="quiet"\s+(?:aria-current="true")?>([^<]*)', html) == [
        name for _code, name in LANGUAGES
    ]


# --- What is translated --------------------------------------------------------------------------


@each_row("language", sorted(CODES))
def test_each_item_of_the_navigation_is_shown_in_each_language(language):
    make_world()
    client = browser(language, user=User.objects.create_superuser("admin"))

    for place in {place.view for area in AREAS for place in area.places} - {"manual"}:
        answer = client.get(reverse(place), follow=True)

        assert (place, answer.status_code) == (place, 200)
        assert answer.headers["Content-Language"] == language


def test_the_navigation_the_states_and_the_buttons_are_translated():
    job = make_job("news")
    html = browser("de", user=make_user("operator")).get(f"/jobs/{job.pk}/").content.decode()

    assert {"Übersicht", "Jobs", "Läufe", "Zeitpläne", "Dokumente", "Hosts", "Aufgaben"} <= set(
        re.findall(r">\s*([^<>\n]+?)\s*</a>", html)
    )
    assert "Läuft nicht" in html
    assert "Not running" not in html


def test_the_names_of_tables_and_columns_are_translated():
    client = browser("de", user=User.objects.create_superuser("admin"))

    page = client.get("/admin/jobs/throttlepolicy/add/").content.decode()
    # A name becomes a label with a capital letter.
    shown = set(re.findall(r">\s*([^<>\n]+?)\s*<", page))
    assert {"Drosselrichtlinie hinzufügen", "Gilt überall", "Zeitzone", "Regeln"} <= shown
    # Django makes the plural of rows in a form with an English "s".
    assert "Regels" not in page
    assert "Drosselgruppen" in client.get("/admin/jobs/throttlegroup/").content.decode()


def test_a_message_of_django_is_translated():
    answer = browser("de").post("/login/", {"username": "nobody", "password": "wrong"})

    assert "Bitte" in answer.content.decode()
    assert "Please enter a correct" not in answer.content.decode()


@each_row("path", ["/api/v1/jobs/999999/", "/api/v1/jobs/?ordering=nonsense"])
def test_the_api_answers_in_english(path):
    user = make_user("viewer")
    german, english = browser("de", user=user), browser(user=user)
    choose(german, "de")

    answers = [client.get(path) for client in (german, english)]

    assert answers[0].json() == answers[1].json()
    assert answers[0].headers["Content-Language"] == "en"


def test_the_journal_is_english_in_each_language():
    user = make_user("operator")
    job = make_job("news")

    browser("de", user=user).post(f"/jobs/{job.pk}/transition/", {"transition": "start"})

    assert job.events.latest("pk").message == "was started"


def test_a_live_screen_has_the_language_of_its_page():
    with speaking("de"):
        german = read_screen("overview")

    assert german["headline"] == "Kein Job läuft"
    assert read_screen("overview")["headline"] == "No job is running"


def test_numbers_have_the_separators_of_the_language():
    with speaking("de"):
        german = formats.number(1_234_567), formats.share(1, 16), formats.size(1_234_000), formats.rate(0.5)
    with speaking("zh-hans"):
        chinese = formats.number(1_234_567)

    assert german == ("1.234.567", "6,2 %", "1,2 MB", "0,5")
    assert chinese == formats.number(1_234_567) == "1,234,567"


# --- The cost of translation ------------------------------------------------------------------------------------


def test_an_english_page_looks_up_no_translation(monkeypatch):
    make_job("news")
    client = browser("en", user=make_user("administrator"))

    def refuse(_catalogue, *text):
        raise AssertionError(f"{text} was looked up")

    for name in ("gettext", "ngettext"):
        monkeypatch.setattr(trans_real.DjangoTranslation, name, refuse)

    assert client.get("/").status_code == 200


def test_a_request_reads_the_language_without_a_statement(settings_known):
    client = browser(user=make_user("viewer"))
    with CaptureQueriesContext(connection) as of_english:
        client.get("/account/")
    choose(client, "de")

    with CaptureQueriesContext(connection) as of_german:
        client.get("/account/")

    assert len(of_german) == len(of_english)


def test_a_login_for_a_token_starts_no_session():
    user = make_user("viewer")
    user.set_password(PASSWORD)
    user.save()
    choose(browser(user=user), "de")

    answer = Client().post(
        "/api/v1/token/", {"username": user.username, "password": PASSWORD}, content_type="application/json"
    )

    assert answer.status_code == 201
    assert not answer.cookies
