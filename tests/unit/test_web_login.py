"""Proves the configuration of logins, the safety of their secrets, and the values sent to a form."""

import pytest

from jobs.connectors.repository.kind import SourceSettings
from jobs.connectors.repository.web.fetch import Response
from jobs.connectors.repository.web.forms import Form, forms_of
from jobs.connectors.repository.web.kind import WEB, specification_of
from jobs.connectors.repository.web.login import LoginFailed, log_in
from jobs.connectors.repository.web.specification import CONFIGURATION
from jobs.connectors.schema import BadSpecification
from nodes.database.sealing import seal, unseal
from tests.support.free_pace import FreePace
from tests.support.tables import each_row

LOGIN = {"name": "door", "pages": "/in/", "page": "/login$", "hosts": ["a.example"]}
SECRET = {"name": "password", "secret": "sesame"}


def problems_of(*logins):
    return WEB.check(SourceSettings(configuration={"logins": list(logins)})).problems


def test_a_valid_login_is_accepted():
    assert problems_of({**LOGIN, "fields": [{"name": "user", "value": "me"}, SECRET]}) == {}


@each_row(
    ("login", "words"),
    [
        ({**LOGIN, "pages": "("}, "missing"),
        ({**LOGIN, "pages": ""}, "must not be empty"),
        ({**LOGIN, "hosts": []}, "must not be empty"),
        ({**LOGIN, "page": ""}, "can be recognized"),
        ({**LOGIN, "name": " "}, "must be printable"),
        ({**LOGIN, "text": "(?=x)"}, "not possible in linear time"),
        ({**LOGIN, "door": "x"}, "unknown"),
        ({**LOGIN, "fields": [{"value": "x"}]}, "name: missing"),
        ({**LOGIN, "fields": [{"name": "a", "secret": 1}]}, "must be a text"),
        ({**LOGIN, "fields": [{"name": "a", "secret": "sealed:nonsense"}]}, "enter it again"),
        ({**LOGIN, "fields": ["user"]}, "list of objects"),
        ({"name": "door"}, "missing"),
    ],
)
def test_a_login_that_could_not_work_is_refused(login, words):
    assert words in str(problems_of(login))


def test_two_logins_with_one_name_are_refused():
    assert "the same name" in str(problems_of(LOGIN, LOGIN))


def test_logins_in_the_specification_of_a_job_are_refused():
    with pytest.raises(BadSpecification, match="logins: unknown"):
        specification_of(SourceSettings(specification={"logins": [LOGIN]}))


def test_secrets_are_sealed_once_and_read_unchanged():
    configuration = {"user_agent": "me", "logins": [{**LOGIN, "fields": [{"name": "user", "value": "me"}, SECRET]}]}

    stored = CONFIGURATION.sealed(configuration)

    assert "sesame" not in str(stored)
    assert CONFIGURATION.sealed(stored) == stored
    assert CONFIGURATION.read(stored)["logins"][0]["fields"][1]["secret"] == "sesame"
    assert "sesame" not in repr(specification_of(SourceSettings(configuration=stored)))


def test_a_secret_sealed_with_another_key_cannot_be_read(settings):
    sealed = seal("sesame")
    assert unseal(sealed) == "sesame"
    settings.SECRET_KEY = "another"

    with pytest.raises(ValueError, match="another CRAWLCTL_SECRET_KEY") as refused:
        unseal(sealed)
    assert "sesame" not in str(refused.value)


@each_row(
    ("inside", "values"),
    [
        ("<input name=a value=1><input name=b><input value=3>", {"a": "1", "b": ""}),
        ("<input type=hidden name=a value='x &amp; y'>", {"a": "x & y"}),
        (
            "<input type=checkbox name=a><input type=radio name=b value=1><input type=radio name=b value=2 checked>",
            {"b": "2"},
        ),
        ("<input type=checkbox name=a checked>", {"a": "on"}),
        ("<input type=submit name=a value=1><button name=b value=2>", {"a": "1"}),
        ("<button type=button name=a></button><input type=reset name=b><input type=file name=c>", {}),
        ("<input name=a value=1 disabled>", {}),
        ("<select name=a><option value=1>x<option selected>two</select>", {"a": "two"}),
        ("<select name=a><option value=1>x<option>two</select>", {"a": "1"}),
        ("<textarea name=a>words</textarea>", {"a": "words"}),
    ],
)
def test_a_form_is_sent_as_a_browser_would_send_it(inside, values):
    assert forms_of(f"<form method=POST action=/to>{inside}</form>") == [
        Form(action="/to", is_posted=True, values=values)
    ]


def test_a_form_without_attributes_is_sent_to_its_page_by_get():
    assert forms_of("<form></form><p>") == [Form(action="", is_posted=False, values={})]


class OverTls:
    """A site whose form page is secure and whose form leads elsewhere. It records the sent requests."""

    def __init__(self, action):
        self.page, self.sent = f"<form method=post action='{action}'><input name=password></form>".encode(), []

    async def fetch(self, url, *, headers, is_wanted, most_bytes=None, form=None):
        self.sent.append((url, form))
        return Response(200, {"Content-Type": "text/html"}, (), self.page, len(self.page), whole=True)


@each_row(
    ("action", "reason"),
    [
        ("http://a.example/login", "without TLS"),
        ("https://b.example/login", "not one of its hosts"),
        ("mailto:me@a.example", "no web address"),
    ],
)
async def test_a_form_is_not_sent_where_its_secrets_would_be_lost(action, reason):
    site = OverTls(action)
    (login,) = specification_of(SourceSettings(configuration={"logins": [{**LOGIN, "fields": [SECRET]}]})).logins

    with pytest.raises(LoginFailed, match=reason):
        await log_in(login, "https://a.example/in/", fetcher=site, headers={}, pace=FreePace())

    assert site.sent == [("https://a.example/in/", None)]


class Moved:
    """A site that answers each request with the same redirect. It records the requested addresses."""

    def __init__(self, location):
        self.location, self.asked = location, []

    async def fetch(self, url, *, headers, is_wanted, most_bytes=None, form=None):
        self.asked.append(url)
        return Response(302, {"Location": self.location}, (), b"", 0, whole=True)


async def test_a_login_follows_a_redirect_in_binary_bytes():
    site = Moved(b"/caf\xe9".decode(errors="surrogateescape"))
    (login,) = specification_of(SourceSettings(configuration={"logins": [{**LOGIN, "fields": [SECRET]}]})).logins

    with pytest.raises(LoginFailed, match="redirects more than 9 times"):
        await log_in(login, "https://a.example/in/", fetcher=site, headers={}, pace=FreePace())

    assert site.asked[:2] == ["https://a.example/in/", "https://a.example/caf%E9"]
