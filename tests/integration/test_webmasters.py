"""Proves that the pages for webmasters show, without a login, only the crawler and the figures of one host."""

import datetime as dt

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.lifecycle.job import Phase
from jobs.models import Activity, Bin, BinHour
from jobs.queue.pace.limits import rebind_bins
from jobs.settings import webmasters
from jobs.verbs import deny_list
from jobs.verbs import hosts as host_verbs
from jobs.webmasters.figures import forget_figures
from nodes.database.clock import read_clock
from tests.support.api import NOON, set_phase
from tests.support.factories import make_job, make_lane, make_policy
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

HOST = "www.a.example"


@pytest.fixture
def switch(settings):
    """Return a function that changes settings of these pages."""

    def switch(**values):
        named = {getattr(webmasters, name).path: value for name, value in values.items()}
        settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **named}

    switch(PAGES=True)
    forget_figures()
    return switch


@pytest.fixture
def visitor():
    return Client()


@pytest.fixture
def crawled():
    """Return a host with requests of a job. The names of the job and its policy must not be shown."""
    policy = make_policy(name="secret policy", min_gap=7.0, open_requests=3)
    job = make_job("secret job", policy=policy)
    lane = make_lane(job.seeds.get(), HOST)
    rebind(lane.seed)
    set_phase(job, phase=Phase.ACTIVE)
    now = read_clock()
    hour = (now - dt.timedelta(hours=2)).replace(minute=0, second=0, microsecond=0)
    BinHour.objects.create(bin=lane.bin, hour=hour, starts=1234, bytes_read=5_600_000, gap=7.0)
    make_answers(job, now, ["200", "200", "404"])
    return lane.bin


def rebind(seed):
    with connection.cursor() as cursor:
        rebind_bins(cursor, seed_id=seed.pk, before=None)


def make_answers(job, now, codes):
    for number, code in enumerate(codes):
        Activity.objects.create(
            started_at=now - dt.timedelta(seconds=number + 1),
            seconds=0.1,
            job=job,
            repository=job.repository,
            activity="fetch",
            entity=f"http://{HOST}/secret/{number}",
            result_code=code,
        )


def text_of(answer):
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode()


@each_row("path", ["/webmasters/", f"/webmasters/{HOST}/", f"/api/v1/webmasters/{HOST}/"])
def test_the_pages_exist_only_if_a_setting_enables_them(visitor, path):
    assert visitor.get(path).status_code == 404


def test_the_page_tells_visitors_who_operates_the_crawler(visitor, switch):
    switch(OPERATOR="The Library", CONTACT="crawler@library.example")

    page = text_of(visitor.get("/webmasters/"))

    assert "The Library" in page
    assert "crawler@library.example" in page
    assert "crawlctl/0.1" in page


def test_a_visitor_finds_the_page_of_a_host_by_its_name(visitor, switch):
    answer = visitor.get("/webmasters/", {"host": " https://WWW.A.example./some/page?x=1 "})

    assert answer["Location"] == f"/webmasters/{HOST}/"


def test_figures_of_a_shown_host_are_from_the_last_day(visitor, switch, crawled):
    switch(SHOWN=("*.a.example",))

    page = text_of(visitor.get(f"/webmasters/{HOST}/"))
    shown = visitor.get(f"/api/v1/webmasters/{HOST}/").json()["figures"]

    assert "1,234" in page
    assert "5.6 MB" in page
    assert "The operator set this limit." in page
    assert (shown["requests"], shown["bytes_read"]) == (1234, 5_600_000)
    assert len(shown["hours"]) == 24
    assert shown["answers"] == {"200": 2, "404": 1}
    assert (shown["limit"]["gap"], shown["limit"]["reason"]) == (7.0, "operator")


def test_the_page_of_a_host_hides_jobs_policies_documents_and_other_hosts(visitor, switch, crawled):
    make_lane(make_job("another secret").seeds.get(), "secret.a.example")
    switch(SHOWN=("*",))

    page = text_of(visitor.get(f"/webmasters/{HOST}/"))
    shown = text_of(visitor.get(f"/api/v1/webmasters/{HOST}/"))

    assert "secret" not in page + shown


def test_a_crawled_host_that_is_not_shown_looks_like_an_unknown_host(visitor, switch):
    switch(SHOWN=("*.b.example",))
    addresses = (f"/webmasters/{HOST}/", f"/api/v1/webmasters/{HOST}/")
    before = [without_tokens(visitor.get(address)) for address in addresses]
    host = make_lane(make_job(policy=make_policy(name="a policy", min_gap=7.0)).seeds.get(), HOST).bin
    host_verbs.stop(host.pk, reason="a reason", made_by="otto", now=NOON)

    after = [without_tokens(visitor.get(address)) for address in addresses]

    assert Bin.objects.filter(name=HOST).exists()
    assert after == before


def without_tokens(answer):
    """Return the page without the token of its forms, which differs each time."""
    lines = text_of(answer).splitlines()
    return [line for line in lines if "csrfmiddlewaretoken" not in line]


def test_the_page_of_a_host_gives_the_reason_for_its_limit(visitor, switch):
    switch(SHOWN=("*",))
    host = make_lane(make_job().seeds.get(), HOST).bin
    reasons = []

    for change in (
        lambda: None,
        lambda: Bin.objects.update(interval=30.0),
        lambda: deny_list.deny(HOST, reason="a reason", made_by="otto", now=NOON),
        lambda: host_verbs.stop(host.pk, reason="a reason", made_by="otto", now=NOON),
    ):
        change()
        forget_figures()
        limit = visitor.get(f"/api/v1/webmasters/{HOST}/").json()["figures"]["limit"]
        reasons.append((limit["reason"], limit["is_closed"]))

    assert reasons == [("usual", False), ("robots", False), ("denied", True), ("denied", True)]


def test_figures_are_read_from_the_database_once_in_some_seconds(visitor, switch, crawled):
    switch(SHOWN=("*",))
    text_of(visitor.get(f"/api/v1/webmasters/{HOST}/"))

    with CaptureQueriesContext(connection) as asked:
        answer = visitor.get(f"/api/v1/webmasters/{HOST}/")

    assert not [query for query in asked if "jobs_bin" in query["sql"] or "jobs_activity" in query["sql"]]
    assert answer["Cache-Control"] == "public, max-age=10"


def test_a_host_that_is_not_shown_costs_no_query_of_its_figures(visitor, switch, crawled):
    with CaptureQueriesContext(connection) as asked:
        text_of(visitor.get(f"/webmasters/{HOST}/"))

    assert not [query for query in asked if "jobs_" in query["sql"]]


@each_row(
    "typed",
    [
        *("a b", "<script>alert(1)</script>", "a" * 5000, "..", "%00", "a\x00b", "[::1", "1.2.3.4.5.6", "-", "*"),
        *("a.example:99999999", "' OR 1=1 --", "xn--", "\u202e.example", "user:pass@host", "//", "file:///etc/passwd"),
    ],
)
def test_hostile_names_get_a_plain_answer(visitor, switch, typed):
    switch(SHOWN=("*",))

    answers = [
        visitor.get("/webmasters/", {"host": typed}),
        visitor.get(f"/webmasters/{typed.replace('/', '')}/"),
        visitor.get(f"/api/v1/webmasters/{typed.replace('/', '')}/"),
    ]

    assert {answer.status_code for answer in answers} <= {200, 301, 302, 400, 404}
    pages = [answer for answer in answers if answer["Content-Type"].startswith("text/html")]
    assert not any(b"<script>alert" in page.content for page in pages)
