"""
Proves that the web connector logs in once while other documents wait, and sends credentials only to hosts of the login.
"""

from contextlib import asynccontextmanager

import pytest

from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Document, Ending, hash_of
from jobs.connectors.repository.kind import SourceSettings
from jobs.connectors.repository.shared import ClosedGate, Session
from jobs.connectors.repository.web.connector import WebConnector
from jobs.connectors.repository.web.cookies import Cookie, Cookies
from jobs.connectors.repository.web.fetch import Fetcher
from jobs.connectors.repository.web.kind import specification_of
from jobs.connectors.repository.web.robots import ALLOW_ALL, RobotsTable
from tests.support.free_pace import FreePace
from tests.support.guarded import serve_guarded

GATE = "login the door"


class SingleWorker:
    """The shared state of logins, for a single worker."""

    connection = "treasury"

    def __init__(self):
        self.sessions, self.closed_gates, self.reasons = {}, set(), []

    @asynccontextmanager
    async def close_gate(self, name):
        is_mine = name not in self.closed_gates
        self.closed_gates.add(name)
        try:
            yield ClosedGate(name, is_mine)
        finally:
            if is_mine:
                self.closed_gates.remove(name)

    async def session(self, name):
        return self.sessions.get(name)

    async def keep_session(self, name, value):
        known = self.sessions.get(name)
        self.sessions[name] = Session(known.number + 1 if known else 1, value)
        return self.sessions[name]

    async def pause_job(self, reason):
        assert self.closed_gates, "another client could try meanwhile"
        self.reasons.append(reason)


class Visitor:
    """A job with the shared state of one worker. `process` returns the outcome for one path."""

    def __init__(self, site, fetcher, **login):
        self.site, self.shared, self.pace = site, SingleWorker(), FreePace()
        configuration = {"allow_private_networks": True, "logins": [{**site.login, **login}]}
        robots = RobotsTable()
        robots.learn(site.origin, ALLOW_ALL, lives_for=3600.0)
        self.connector = WebConnector(
            specification_of(SourceSettings(configuration, seeds=[site.url("/index")])), fetcher=fetcher, robots=robots
        )

    async def process(self, path, *, failures=0):
        url = self.site.url(path)
        document = Document(
            hash=hash_of(url),
            identifier=url,
            depth=1,
            redirects=0,
            version="",
            validators="",
            failures=failures,
            failing_for=0.0,
        )
        activity = Activity(document, "1", shared=self.shared)
        await self.connector.process(document, activity, self.pace)
        return activity.outcome

    def session_of(self, value):
        cookie = Cookie("session", value, "127.0.0.1", is_for_domain=False, path="/", is_secure=False)
        return Cookies((cookie,)).stored()


@pytest.fixture
def site():
    with serve_guarded() as served:
        yield served


@pytest.fixture
async def visitor(site):
    async with Fetcher(allow_private_networks=True) as fetcher:
        yield Visitor(site, fetcher)


async def test_every_request_of_a_login_obeys_the_pace_of_its_host(visitor):
    outcome = await visitor.process("/page/1")

    assert (outcome.ending, outcome.code) == (Ending.INDEXED, "200")
    # The path of requests: the page, its redirect to the form, the login, the welcome page, the page again.
    assert [path for path, _ in visitor.site.told] == ["/page/1", "/page/1", "/login", "/welcome", "/page/1"]
    assert visitor.pace.requests == len(visitor.site.told) + len(visitor.site.logins)


async def test_a_login_form_is_sent_with_its_own_values_and_the_given_values(visitor):
    await visitor.process("/page/1")

    (sent,) = visitor.site.logins
    assert set(sent) == {"token", "user", "password", "go"}


async def test_a_page_without_a_login_is_requested_without_a_session(visitor):
    await visitor.process("/page/1")
    visitor.site.told.clear()

    await visitor.process("/index")

    assert visitor.site.told == [("/index", None)]


async def test_a_document_at_a_closed_gate_waits_behind_it(visitor):
    visitor.shared.closed_gates.add(GATE)

    outcome = await visitor.process("/page/1")

    assert (outcome.ending, outcome.gate, visitor.site.logins) == (Ending.WAITING, GATE, [])


async def test_a_session_that_another_worker_stored_meanwhile_is_used(visitor):
    await visitor.process("/page/1")
    visitor.site.sessions = {"another"}
    await visitor.shared.keep_session("the door", visitor.session_of("another"))

    outcome = await visitor.process("/page/2")

    assert (outcome.code, len(visitor.site.logins)) == ("200", 1)


async def test_a_page_that_requires_a_login_even_after_the_login_fails_alone(visitor):
    visitor.site.forbidden = frozenset({"/page/1"})

    outcome = await visitor.process("/page/1")

    assert (outcome.ending, outcome.code, outcome.removes) == (Ending.FAILED, "LOGIN", False)
    assert visitor.shared.reasons == []
    assert (await visitor.process("/page/2")).code == "200"
    assert len(visitor.site.logins) == 1


async def test_a_login_that_fails_temporarily_is_retried(visitor):
    visitor.site.is_closed = True

    first, last = await visitor.process("/page/1"), await visitor.process("/page/1", failures=2)

    assert (first.ending, first.code) == (Ending.RETRY, "503")
    assert (last.ending, last.code, last.removes) == (Ending.FAILED, "503", False)
    assert visitor.shared.reasons == []
    assert [(record.activity, record.result_code) for record in first.records if "login" in record.activity] == [
        ("begin login sequence", "OK"),
        ("end login sequence", "503"),
    ]


@pytest.mark.parametrize(
    ("login", "reason"),
    [
        ({"hosts": ["elsewhere.example"]}, "it leads to 127.0.0.1, which is not one of its hosts"),
        (
            {"fields": [{"name": "user", "value": "nobody"}]},
            "the login page came again; check the user and the password",
        ),
        ({"fields": [{"name": "name", "value": "ali"}]}, "its login page has no form that can be filled in"),
        ({"success": "Hello"}, "the page after the login does not match the pattern of success"),
    ],
)
async def test_a_failed_login_pauses_the_job_with_the_reason(visitor, site, login, reason):
    visitor = Visitor(site, visitor.connector._fetcher, **login)

    outcome = await visitor.process("/page/1")

    assert outcome.ending == Ending.WAITING
    assert visitor.shared.reasons == [f"treasury: the login the door failed: {reason}"]
    assert visitor.shared.sessions == {}


@pytest.mark.parametrize("known_by", [{"page": "", "form": "/login$"}, {"page": "", "text": "type=password"}])
async def test_a_login_page_is_also_recognized_by_its_form_or_its_text(visitor, site, known_by):
    """The server sends the login page in place of the requested page."""
    visitor = Visitor(site, visitor.connector._fetcher, pages="/login$", **known_by)

    await visitor.process("/login")

    assert len(site.logins) == 1
