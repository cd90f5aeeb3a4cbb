"""Proves that a search in the control partition finds documents of all partitions, best first."""

import uuid

import psycopg
import pytest

from jobs.connectors.output.base import Entry
from jobs.connectors.output.search import SearchConfiguration, SearchOutput
from jobs.connectors.repository.access import OPEN, Access, Level
from jobs.connectors.repository.base import Content
from jobs.duties.index import index_waiting_texts
from jobs.models import OutputConnection
from jobs.partitions import merged
from jobs.queue.sql.arrays import register_arrays
from jobs.search.all_partitions import search_everywhere
from jobs.settings.partitions import PARTITION, PARTITIONS
from tests.support.api import client_of
from tests.support.cluster import NOON
from tests.support.processes import copy_of
from tests.support.proxy import Proxy

STAFF = Access(document=Level(allow=("corp:staff",)))
# Number of words of each document. The fewer words a document has, the higher the matching word ranks it.
HERE = {"a1": 1, "a2": 3, "a3": 3}
THERE = {"b1": 2, "b2": 3, "b3": 3, "b4": 9}


def index(connection, output, pages, access=OPEN):
    """Write pages into a search output, as a flush does, and index them."""
    register_arrays(connection)
    with connection.transaction(), connection.cursor(binary=True) as cursor:
        SearchOutput(id=output.pk, configuration=SearchConfiguration()).add_or_replace(
            cursor, [entry(name, words, access) for name, words in pages.items()]
        )
    while index_waiting_texts(connection).texts:
        pass


def entry(name, words, access):
    url = f"http://{name[0]}.example/{name}"
    facts = {"title": "", "description": "", "content_type": "text/html", "language": ""}
    content = Content(url=url, text="wombat " + "filler " * words, access=access, **facts)
    return Entry(hash=uuid.uuid5(uuid.NAMESPACE_URL, url).hex, url=url, content=content, version="1", fetched_at=NOON)


@pytest.fixture
def output(connection):
    output = OutputConnection.objects.create(name="search", connector="search")
    index(connection, output, HERE)
    return output


@pytest.fixture(scope="module")
def database(template, django_db_blocker):
    """Return the database of partition `b`, in which the output has another number."""
    with django_db_blocker.unblock(), copy_of(template) as database:
        with database.as_django(), psycopg.connect(database.dsn, autocommit=True) as connection:
            OutputConnection.objects.create(name="of another number", connector="null")
            there = OutputConnection.objects.create(name="search", connector="search")
            index(connection, there, THERE)
            index(connection, there, {"bsecret": 2}, access=STAFF)
        yield database


@pytest.fixture
def control(output, database, settings, monkeypatch):
    """Make this database the control partition, and return a function that gives `b` another address."""

    def control(address):
        values = {PARTITION.path: "a", PARTITIONS.path: ("a=postgresql://one/crawl", f"b={address}")}
        settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}

    monkeypatch.setattr(merged, "_silent_until", {})
    monkeypatch.setattr(merged, "ANSWERS_WITHIN", 30.0)
    control(database.dsn)
    return control


def pages(*tokens, limit):
    after = None
    while True:
        found = search_everywhere("wombat", tokens=tokens, limit=limit, after=after)
        yield found.page
        after = found.page.next
        if after is None:
            return


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_pages_of_a_search_merge_the_documents_of_all_partitions_by_rank(control, limit):
    hits = [hit for page in pages(limit=limit) for hit in page.hits]

    assert [hit.rank for hit in hits] == sorted((hit.rank for hit in hits), reverse=True)
    assert sorted(hit.url.rpartition("/")[2] for hit in hits) == sorted([*HERE, *THERE])
    assert [hit.url.rpartition("/")[2] for hit in hits][:2] == ["a1", "b1"]


def test_a_search_shows_documents_of_another_partition_to_their_readers_only(control):
    (seen,) = pages("corp:staff", limit=100)
    (others,) = pages("corp:guests", limit=100)

    assert (seen.total, others.total) == (len(HERE) + len(THERE) + 1, len(HERE) + len(THERE))
    assert {hit.url for hit in seen.hits} - {hit.url for hit in others.hits} == {"http://b.example/bsecret"}


def test_the_api_names_the_partition_of_a_result_and_the_local_output(control, output):
    found = client_of("viewer").get("/api/v1/search/?q=wombat").json()

    assert {(hit["partition"], hit["output"]) for hit in found["results"]} == {("", output.pk), ("b", output.pk)}
    assert found["silent"] == []


def test_a_search_without_the_answer_of_a_partition_names_the_partition(control, database, monkeypatch):
    monkeypatch.setattr(merged, "ANSWERS_WITHIN", 2.0)
    with Proxy.of_database(database.dsn) as proxy:
        control(proxy.dsn(database.dsn))
        proxy.cut()
        client = client_of("viewer")
        page = client.get("/search/?q=wombat").content.decode()

        assert "Partition b does not answer." in page
        assert f"at least {len(HERE)} documents" in page
        assert client.get("/api/v1/search/?q=wombat").json()["silent"] == ["b"]
