"""Proves the orders of the list of documents, and that chosen documents lead to the preview of an operation."""

import datetime as dt
from urllib.parse import parse_qs, urlsplit

import pytest

from crawlctl.access.roles import OPERATOR, VIEWER
from jobs.exports.models import Export
from jobs.exports.sources import SOURCES, read_filter
from jobs.lifecycle.document import Stage
from jobs.models import Outcome
from jobs.queries.documents import lists
from tests.integration.test_pages import page_client
from tests.support.cluster import NOON
from tests.support.factories import make_documents, make_job, make_lane

pytestmark = pytest.mark.django_db

FAILED = {"stage": Stage.DONE, "outcome": Outcome.FAILED, "result_code": "500"}


@pytest.fixture
def job():
    return make_job("docs")


@pytest.fixture
def operator():
    return page_client(OPERATOR)


def identifiers(page):
    return [row["identifier"].rpartition("/")[2] for row in page.context["rows"]]


def target(response):
    address = urlsplit(response.headers["Location"])
    return address.path, {name: value for name, (value,) in parse_qs(address.query).items()}


def test_documents_of_a_job_are_ordered_by_their_next_check_over_pages(job, operator):
    for host, first in (("a.example", 0), ("b.example", 1)):
        lane = make_lane(job.seeds.get(), host)
        for number in range(first, 60, 2):
            make_documents(lane, [str(number)], check_time=NOON + dt.timedelta(hours=number))
        make_documents(lane, [f"{host} is due"])

    page = operator.get(f"/documents/?job={job.pk}&sort=due")
    rest = operator.get(f"/documents/?{page.context['next_query']}")

    assert identifiers(page) + identifiers(rest) == [str(number) for number in range(60)]


def test_documents_of_all_jobs_are_not_ordered_by_their_next_check(operator):
    assert "Choose a job or a host" in operator.get("/documents/?sort=due").context["problem"]


@pytest.mark.parametrize(("order", "column"), [("depth", "depth"), ("age", "fetched_at"), ("response", "response_ms")])
@pytest.mark.parametrize("direction", ["", "-"])
def test_few_documents_are_ordered_by_a_value_over_pages(job, operator, order, column, direction):
    lane = make_lane(job.seeds.get(), "a.example")
    for number in range(60):
        value = NOON - dt.timedelta(days=number // 2) if order == "age" else number // 2
        make_documents(lane, [f"{number // 2}-{number % 2}"], **FAILED, **{column: value})

    page = operator.get(f"/documents/?sort={direction}{order}")
    rest = operator.get(f"/documents/?{page.context['next_query']}")

    values = [int(name.partition("-")[0]) for name in identifiers(page) + identifiers(rest)]
    assert values == sorted(values, reverse=bool(direction))
    assert len({*identifiers(page), *identifiers(rest)}) == 60


def test_a_list_in_the_order_of_a_value_omits_documents_without_the_value(job, operator):
    make_documents(make_lane(job.seeds.get(), "a.example"), ["waiting"])

    assert identifiers(operator.get("/documents/?sort=-response")) == []


def test_more_documents_than_can_be_sorted_are_not_ordered(job, operator, monkeypatch):
    monkeypatch.setattr(lists, "MOST_ORDERED", 2)
    lane = make_lane(job.seeds.get(), "a.example")
    make_documents(lane, ["one", "two"], **FAILED)
    make_documents(lane, ["three"])

    few, many = (operator.get(f"/documents/?sort=depth{more}") for more in ("&state=failed", ""))

    assert (few.context["problem"], identifiers(few)) == ("", identifiers(few)[:2])
    assert "at most 2 match" in many.context["problem"]


def test_a_response_time_is_shown_with_its_unit(job, operator):
    lane = make_lane(job.seeds.get(), "a.example")
    for value in (0, 999, 1_250, 90_000):
        make_documents(lane, [str(value)], **FAILED, response_ms=value)

    page = operator.get("/documents/?sort=response")

    assert [row["response"] for row in page.context["rows"]] == ["0 ms", "999 ms", "1.2 s", "1 min 30 s"]


def test_chosen_documents_lead_to_the_preview_of_an_operation(job, operator):
    keys = [document.hash.hex for document in make_documents(make_lane(job.seeds.get()), ["one", "two"], **FAILED)]
    chosen = "&".join(f"document={key}.{job.pk}" for key in keys)

    way = operator.get(f"/documents/change/?operation=retry&which=chosen&{chosen}")
    preview = operator.get(way.headers["Location"]).context["preview"]

    assert preview.documents == 2


def test_the_page_of_a_document_links_to_the_preview_of_an_operation(job, operator):
    (document,) = make_documents(make_lane(job.seeds.get()), ["one"], **FAILED)

    page = operator.get(f"/documents/{job.pk}/{document.hash.hex}/")
    way = operator.get(f"/documents/change/?operation=expire&document={page.context['key']}")

    assert [name for name, _label, removes in page.context["operations"] if not removes] == [
        "retry",
        "expire",
        "re-read",
    ]
    assert operator.get(way.headers["Location"]).context["preview"].documents == 1


def test_all_documents_of_a_filter_lead_to_the_preview_of_an_operation(job, operator):
    way = operator.get(
        f"/documents/change/?operation=re-read&which=matching&job={job.pk}&state=failed&host=a.example&code=500"
    )

    wanted = {"operation": "re-read", "host": "a.example", "codes": "500", "state": "failed"}
    assert target(way) == (f"/jobs/{job.pk}/bulk/", wanted)


def exported_names(way, operator):
    """Return the names of the documents in the export to which this address leads."""
    form = operator.get(way.headers["Location"])
    assert form.context["problems"] == {}
    operator.post("/exports/new/", {name: form.context[name] for name in ("what", "filter", "format")})
    _, query = read_filter(SOURCES["documents"], Export.objects.latest("pk").filter)
    return {row[0].rpartition("/")[2] for row in SOURCES["documents"].read(query, None, 100).rows}


def test_chosen_documents_lead_to_an_export_of_exactly_these_documents(job, operator):
    one, two, _three = make_documents(make_lane(job.seeds.get()), ["one", "two", "three"], **FAILED)
    chosen = "&".join(f"document={document.hash.hex}.{job.pk}" for document in (one, two))

    way = operator.get(f"/documents/change/?operation=export&which=chosen&{chosen}")

    assert exported_names(way, operator) == {"one", "two"}


def test_a_filter_leads_to_an_export_of_exactly_the_documents_that_it_shows(job, operator):
    lane = make_lane(job.seeds.get(), "a.example")
    make_documents(lane, ["wanted"], **FAILED)
    make_documents(lane, ["other code"], **FAILED | {"result_code": "404"})
    make_documents(lane, ["waiting"], result_code="500")
    make_documents(make_lane(job.seeds.get(), "b.example"), ["other host"], **FAILED)

    way = operator.get("/documents/change/?operation=export&which=matching&state=failed&host=a.example&code=500")

    assert exported_names(way, operator) == {"wanted"}


@pytest.mark.parametrize(
    "asked", ["which=chosen", "which=chosen&document=a.1&document=b.2", "which=matching&state=failed"]
)
def test_documents_can_be_changed_together_only_within_one_job(operator, asked):
    way = operator.get(f"/documents/change/?operation=retry&{asked}", follow=True)

    assert way.redirect_chain[-1][0].startswith("/documents/")
    assert [message.level_tag for message in way.context["messages"]] == ["warning"]


def test_viewers_choose_no_documents(job):
    make_documents(make_lane(job.seeds.get()), ["one"], **FAILED)

    page = page_client(VIEWER).get("/documents/")

    assert 'name="document"' not in page.content.decode()
