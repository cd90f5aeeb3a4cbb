"""Lists of the API can be searched by words and ordered."""

import pytest

from crawlctl.access.roles import ADMINISTRATOR, VIEWER
from jobs.connectors.repository.base import hash_of
from jobs.models import OutputConnection, QueueItem
from tests.support.api import assert_problem, client_of, make_documents, make_job, make_world
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

OUTPUTS = "/api/v1/outputs/"
NAMES = ("Docs nightly", "docs.example.com", "Störung_2", "archive")


@pytest.fixture
def administrator():
    client = client_of(ADMINISTRATOR)
    for name in NAMES:
        client.post(OUTPUTS, {"name": name, "connector": "null"})
    return client


def names(client, **asked):
    return [output["name"] for output in client.get(OUTPUTS, asked).json()["results"]]


@each_row(
    ("search", "found"),
    [
        ("docs", ["Docs nightly", "docs.example.com"]),
        ("NIGHT do", ["Docs nightly"]),
        ("exam", ["docs.example.com"]),
        ("docs.example", ["docs.example.com"]),
        ("stör", ["Störung_2"]),
        ("2", ["Störung_2"]),
        ("ample", []),
        ("' | !docs:*", ["Docs nightly", "docs.example.com"]),
    ],
)
def test_objects_are_found_by_the_start_of_a_word_of_their_name(administrator, search, found):
    assert names(administrator, search=search) == found


@each_row("search", ["-", " . ", "''"])
def test_a_search_without_a_word_is_refused(administrator, search):
    assert_problem(administrator.get(OUTPUTS, {"search": search}), 400, "invalid", fields=["search"])


def test_a_list_is_ordered_page_by_page(administrator):
    expected = list(OutputConnection.objects.order_by("-name").values_list("name", flat=True))
    address, found = f"{OUTPUTS}?ordering=-name&limit=1", []

    while address:
        page = administrator.get(address).json()
        found += [output["name"] for output in page["results"]]
        address = page["next"]

    assert found == expected
    assert names(administrator, ordering="name") == expected[::-1]
    assert names(administrator, ordering="-id") == [*NAMES[::-1]]


def test_a_cursor_of_another_order_is_refused(administrator):
    following = administrator.get(f"{OUTPUTS}?ordering=name&limit=1").json()["next"]

    refused = administrator.get(following.replace("ordering=name", "ordering=id"))

    assert_problem(refused, 400, "invalid", fields=["cursor"])


@each_row(
    ("things", "ordering"),
    [
        ("jobs", "-name"),
        ("policies", "-id"),
        ("repositories", "name"),
        ("seeds", "-id"),
        ("job-events", "id"),
        ("runs", "id"),
        ("node-events", "id"),
        ("nodes", "started_at"),
        ("cluster/requests", "id"),
    ],
)
def test_each_list_offers_some_orders_and_refuses_others(things, ordering):
    make_world()
    viewer = client_of(VIEWER)

    assert viewer.get(f"/api/v1/{things}/?ordering={ordering}").status_code == 200
    assert_problem(viewer.get(f"/api/v1/{things}/?ordering=configuration"), 400, "invalid", fields=["ordering"])


def test_documents_are_found_by_their_address():
    job = make_job()
    make_documents(job, 12)
    viewer = client_of(VIEWER)

    def urls(**asked):
        return {document["url"] for document in viewer.get("/api/v1/documents/", asked).json()["results"]}

    (one,) = make_documents(job, 1, host="exact.test")
    QueueItem.objects.filter(hash=one.hash).update(hash=hash_of(one.identifier))

    assert urls(url="http://docs.test/nothing") == set()
    assert urls(url="http://EXACT.test:80/0#top") == {"http://exact.test/0"}
    assert urls(url_begins="http://docs.test/1") == {f"http://docs.test/{number}" for number in (1, 10, 11)}
    assert urls(url_begins="http://docs.test/1", job=job.pk) == {f"http://docs.test/{number}" for number in (1, 10, 11)}
    assert urls(url_begins="http://doc") == {f"http://docs.test/{number}" for number in range(12)}
    assert urls(url_begins="http://docs.test/%") == set()
