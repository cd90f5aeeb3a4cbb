"""The API finds documents by filters, lists them page by page, and shows the history of each document."""

import pytest
from django.db import connection

from crawlctl.access.roles import VIEWER
from jobs.api import documents
from jobs.lifecycle.document import Stage
from jobs.models import CounterDelta, Outcome, QueueItem
from tests.support.api import assert_problem, client_of, document_id, make_documents, make_job, make_world, set_phase
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

DOCUMENTS = "/api/v1/documents/"


@pytest.fixture
def viewer():
    return client_of(VIEWER)


def pages(client, address):
    """Yield the results of this page and of each following page."""
    while address is not None:
        page = client.get(address).json()
        yield page["results"]
        address = page["next"]


def ids(documents):
    return [document_id(document) for document in documents]


def test_a_document_shows_its_state_and_the_node_that_claimed_it(viewer):
    world = make_world()

    shown = viewer.get(f"{DOCUMENTS}{document_id(world.document)}/").json()

    assert shown["url"] == "http://docs.test/0"
    assert (shown["job"], shown["host"]) == (world.job.pk, "docs.test")
    assert (shown["state"], shown["manifoldcf_status"]) == ("done", "COMPLETE")
    assert (shown["outcome"], shown["result_code"]) == ("indexed", "200")
    assert [(held["output"], held["name"]) for held in shown["held_by"]] == [(world.output.pk, "index")]


def test_a_document_of_an_earlier_run_has_its_manifoldcf_name(viewer):
    job = make_job()
    (document,) = make_documents(job, 1)
    set_phase(job, run_no=1)

    shown = viewer.get(f"{DOCUMENTS}{document_id(document)}/").json()

    assert shown["manifoldcf_status"] == "PURGATORY"


def test_pages_of_documents_show_each_document_once_and_in_order(viewer):
    documents = make_documents(make_job("first"), 150) + make_documents(make_job("second"), 150)

    shown = [document["id"] for page in pages(viewer, f"{DOCUMENTS}?limit=70") for document in page]

    in_order = sorted(documents, key=lambda document: (document.hash, document.job_id))
    assert shown == ids(in_order)


def test_pages_of_documents_keep_the_filter_of_the_list(viewer):
    first, second = make_job("first"), make_job("second")
    wanted = make_documents(first, 30)
    make_documents(second, 30)

    found = list(pages(viewer, f"{DOCUMENTS}?job={first.pk}&limit=7"))

    assert [len(page) for page in found] == [7, 7, 7, 7, 2]
    assert sorted(document["id"] for page in found for document in page) == sorted(ids(wanted))


def test_a_full_last_page_has_no_link_to_a_next_page(viewer):
    make_documents(make_job(), 10)

    assert [len(page) for page in pages(viewer, f"{DOCUMENTS}?limit=5")] == [5, 5]


def test_documents_removed_between_two_pages_hide_no_other_documents(viewer):
    documents = sorted(make_documents(make_job(), 10), key=lambda document: document.hash)
    first = viewer.get(f"{DOCUMENTS}?limit=5").json()
    QueueItem.objects.filter(hash__in=[document.hash for document in documents[:5]]).delete()

    assert [document["id"] for document in viewer.get(first["next"]).json()["results"]] == ids(documents[5:])


def test_several_filters_are_combined(viewer):
    job, other = make_job("manual"), make_job("other")
    (wanted,) = make_documents(job, 1, host="a.test", outcome=Outcome.FAILED, result_code="404")
    make_documents(job, 2, host="b.test", outcome=Outcome.FAILED, result_code="404")
    make_documents(job, 2, host="c.test", outcome=Outcome.FAILED, result_code="500")
    make_documents(other, 2, host="a.test", stage=Stage.PENDING, outcome=Outcome.NONE, result_code="")
    CounterDelta.objects.create(job_id=other.pk, lane_id=0, run_no=0, measure="stage", amount=2)
    for lane_id in QueueItem.objects.filter(result_code="404").values_list("lane_id", flat=True).distinct():
        CounterDelta.objects.create(
            job_id=job.pk, lane_id=lane_id, run_no=0, measure="stage", stage=2, outcome=3, code="404", amount=1
        )

    def found(query):
        return [document["id"] for document in viewer.get(f"{DOCUMENTS}?{query}").json()["results"]]

    assert found(f"job={job.pk}&host=a.test") == ids([wanted])
    assert found("host=a.test&outcome=failed") == ids([wanted])
    assert found("host=a.test&result_code=404") == ids([wanted])
    assert len(found("result_code=404")) == 3
    assert len(found("outcome=failed")) == 5
    assert len(found("state=pending")) == 2
    assert len(found("outcome=not_ended")) == 2
    assert found("host=nowhere.test") == []


@each_row(
    ("query", "field"),
    [
        ("job=0", "job"),
        ("job=99999999999999999999", "job"),
        ("job=one", "job"),
        ("state=asleep", "state"),
        ("outcome=1", "outcome"),
        ("host=%00", "host"),
        ("result_code=" + "9" * 31, "result_code"),
        ("stage=2", "stage"),
        ("cursor=WyJ4Il0:bogus:signature", "cursor"),
    ],
)
def test_an_invalid_filter_of_documents_is_refused(viewer, query, field):
    assert_problem(viewer.get(f"{DOCUMENTS}?{query}"), 400, "invalid", fields=[field])


def test_a_page_needs_as_many_queries_for_many_documents_as_for_one(viewer, settings_known, django_assert_num_queries):
    make_documents(make_job("first"), 1)
    viewer.get(DOCUMENTS)
    with django_assert_num_queries(16) as once:
        viewer.get(DOCUMENTS)
    make_documents(make_job("second"), 99)

    with django_assert_num_queries(len(once)):
        assert len(viewer.get(DOCUMENTS).json()["results"]) == 100


def test_a_later_page_of_documents_is_found_in_the_index(viewer):
    make_documents(make_job(), 2000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_queueitem")
    following = viewer.get(f"{DOCUMENTS}?limit=100").json()["next"]

    with connection.execute_wrapper(explain := _Explained()):
        viewer.get(following)

    (plan,) = explain.plans
    assert "Index Scan using jobs_queueitem_pkey" in plan
    assert "Index Cond: (hash >=" in plan
    assert "Sort" not in plan


def test_few_documents_of_a_small_job_are_found_by_the_index_of_their_lane(viewer):
    make_documents(make_job("large"), 5000)
    small = make_job("small")
    make_documents(small, 10)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_queueitem")

    with connection.execute_wrapper(explain := _Explained()):
        viewer.get(f"{DOCUMENTS}?job={small.pk}")

    (plan,) = explain.plans
    assert "document_of_run" in plan or "document_due" in plan
    assert "Seq Scan" not in plan


class _Explained:
    """Records the query plan of each page of documents."""

    def __init__(self):
        self.plans = []

    def __call__(self, execute, sql, params, many, context):
        if 'FROM "jobs_queueitem"' in sql:
            with connection.connection.cursor() as cursor:
                self.plans.append("\n".join(row[0] for row in cursor.execute(f"EXPLAIN {sql}", params).fetchall()))
        return execute(sql, params, many, context)


def test_a_list_of_documents_that_takes_too_long_ends_with_a_reason(viewer, monkeypatch):
    make_documents(make_job(), 1)
    monkeypatch.setattr("jobs.api.documents._STATEMENT_TIMEOUT", "1ms")

    with connection.execute_wrapper(_slow):
        response = viewer.get(DOCUMENTS)

    assert_problem(response, 503, "too_slow")


def _slow(execute, sql, params, many, context):
    """Make each query for documents slow, like a search for a few documents among many millions."""
    if 'FROM "jobs_queueitem"' in sql:
        sql, params = "SELECT pg_sleep(10)", None
    return execute(sql, params, many, context)


@pytest.mark.parametrize("direction", ["", "-"])
def test_few_documents_are_ordered_by_a_value_page_by_page(viewer, direction):
    job = make_job()
    for number in range(7):
        make_documents(job, 1, host=f"h{number}.test", response_ms=number // 2)
    make_documents(job, 1, host="unknown.test")

    found = list(pages(viewer, f"{DOCUMENTS}?job={job.pk}&ordering={direction}response_ms&limit=3"))

    assert [len(page) for page in found] == [3, 3, 1]
    assert [document["response_ms"] for page in found for document in page] == sorted(
        [0, 0, 1, 1, 2, 2, 3], reverse=bool(direction)
    )


def test_more_documents_than_can_be_sorted_are_refused_with_a_reason(viewer, monkeypatch):
    monkeypatch.setattr(documents, "MOST_ORDERED", 2)
    make_documents(make_job(), 3)

    refused = viewer.get(f"{DOCUMENTS}?ordering=depth")

    assert_problem(refused, 400, "invalid", fields={"ordering"})
