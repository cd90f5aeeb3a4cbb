"""Documents are found by any part of their address: new ones immediately, and most of them by the index."""

import pytest
from django.db import connection as django_connection

from crawlctl.access.roles import OPERATOR
from jobs.models import AddressBlock, NewAddress, QueueItem
from jobs.queue import address_index
from tests.integration.test_documents_page import exported_names, identifiers, target
from tests.integration.test_pages import page_client
from tests.support.api import client_of
from tests.support.cluster import elect_main, register_node
from tests.support.factories import make_documents, make_job, make_lane

pytestmark = pytest.mark.django_db


@pytest.fixture
def lane():
    return make_lane(make_job("docs").seeds.get(), "a.example")


@pytest.fixture
def main(lane):
    connection = django_connection.connection
    return connection, elect_main(connection, register_node(connection, "manager"))


@pytest.fixture
def operator():
    return page_client(OPERATOR)


def found(client, text):
    answer = client.get("/api/v1/documents/", {"url_contains": text})
    assert answer.status_code == 200, answer.content
    return {row["url"].rpartition("/")[2] for row in answer.json()["results"]}


@pytest.mark.parametrize("are_in_blocks", [False, True])
def test_the_page_and_the_api_find_documents_by_a_part_of_their_address(lane, main, operator, are_in_blocks):
    make_documents(lane, ["Reports-2024.html", "reports-2025.html", "größe.html", "100%_sure.html"])
    if are_in_blocks:
        assert address_index.write_blocks(main[0], term=main[1]) == 4
    client = client_of("administrator")

    assert found(client, "REPORTS-") == {"Reports-2024.html", "reports-2025.html"}
    assert found(client, "größe") == {"größe.html"}
    assert found(client, "%_s") == {"100%_sure.html"}
    assert found(client, "a.example/") == {name.identifier.rpartition("/")[2] for name in QueueItem.objects.all()}
    assert found(client, "4.html2") == set()
    assert identifiers(operator.get(f"/documents/?contains=2024&job={lane.seed.job_id}")) == ["Reports-2024.html"]
    assert NewAddress.objects.exists() != are_in_blocks


def test_many_found_documents_are_listed_in_the_order_of_keys(lane, operator, monkeypatch):
    make_documents(lane, [f"page-{number}" for number in range(60)])
    make_documents(lane, ["other"])
    monkeypatch.setattr(address_index, "MOST_FOUND", 10)

    page = operator.get("/documents/?contains=PAGE-")
    rest = operator.get(f"/documents/?{page.context['next_query']}")

    assert len({*identifiers(page), *identifiers(rest)}) == 60
    assert found(client_of("administrator"), "oth") == {"other"}


def test_all_documents_with_a_part_of_their_address_are_changed_or_exported(lane, operator):
    make_documents(lane, ["wanted-1", "wanted-2", "other"], stage=2, outcome=3, result_code="500")
    job = lane.seed.job_id

    way = operator.get(f"/documents/change/?operation=retry&which=matching&job={job}&contains=wanted")
    to_file = operator.get("/documents/change/?operation=export&which=matching&contains=wanted")

    assert target(way) == (f"/jobs/{job}/bulk/", {"operation": "retry", "contains": "wanted"})
    assert operator.get(way.headers["Location"]).context["preview"].documents == 2
    assert exported_names(to_file, operator) == {"wanted-1", "wanted-2"}


def test_a_search_for_less_than_three_characters_is_refused(lane, operator):
    problem = operator.get("/documents/?contains=ab").context["form"].errors["contains"]

    assert "at least 3 characters" in problem[0]
    client = client_of("administrator")
    assert client.get("/api/v1/documents/?url_contains=ab").status_code == 400
    answer = client.post(
        "/api/v1/bulk/preview/",
        {"operation": "retry", "job": lane.seed.job_id, "filter": {"contains": "ab"}},
        format="json",
    )
    assert "at least 3 characters" in str(answer.json())


def test_blocks_of_documents_that_left_the_queue_are_replaced(lane, main, monkeypatch):
    connection, term = main
    make_documents(lane, ["stays", "left-1", "left-2"])
    address_index.write_blocks(connection, term=term)
    QueueItem.objects.filter(identifier__contains="left").delete()
    monkeypatch.setattr(address_index, "_SPARSE", address_index._SPARSE.replace(str(address_index.TOGETHER), "0"))
    connection.execute(
        "INSERT INTO jobs_jobcounter (job_id, run_no, measure, stage, outcome, code, amount) VALUES (%s, 1, 'stage', 0, 0, '', 1)",
        [lane.seed.job_id],
    )

    assert found(client_of("administrator"), "left") == set()
    assert address_index.rewrite_sparse_blocks(connection, term=term) == 1
    assert not AddressBlock.objects.exists()
    assert [one.address.rpartition("/")[2] for one in NewAddress.objects.all()] == ["stays"]
    assert address_index.rewrite_sparse_blocks(connection, term=term) == 0
