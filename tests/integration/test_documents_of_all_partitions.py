"""Pages of the control partition show the documents of all partitions, and name each partition that is silent."""

import time
from itertools import pairwise

import psycopg
import pytest

from jobs.connectors.repository.base import hash_of as address_hash
from jobs.lifecycle.document import Stage
from jobs.models import Outcome, PartitionedJob, QueueItem
from jobs.partitions import merged
from jobs.partitions.facts import tell
from jobs.partitions.merged import ANSWERS_WITHIN, read_everywhere
from jobs.partitions.placement import SLOTS, slot_of
from jobs.partitions.slots import KEY as MAP_KEY
from jobs.partitions.slots import SlotMap
from jobs.queries.documents.everywhere import list_documents_everywhere, read_story_everywhere
from jobs.queries.documents.lists import A_PAGE, DocumentFilter
from jobs.settings.partitions import PARTITION, PARTITIONS
from tests.support.api import client_of
from tests.support.cluster import NOON
from tests.support.factories import hash_of, make_documents, make_job, make_lane
from tests.support.processes import copy_of
from tests.support.proxy import Proxy

HERE, THERE = 30, 45
ENDED = {"stage": Stage.DONE, "outcome": Outcome.INDEXED, "result_code": "200", "fetched_at": NOON}


@pytest.fixture
def job(connection):
    """Return a job of the control partition, with its documents here."""
    job = make_job("news")
    make_documents(make_lane(job.seeds.get(), "a.example"), [f"a{n}" for n in range(HERE)], depth=1, **ENDED)
    return job


@pytest.fixture(scope="module")
def database(template, django_db_blocker):
    """Return the database of partition `b`, with the other documents of the job. Its id there is another one."""
    with django_db_blocker.unblock(), copy_of(template) as database:
        with database.as_django():
            other = make_job("news")
            PartitionedJob.objects.create(job=other, number=other.pk)
            make_documents(make_lane(other.seeds.get(), "b.example"), [f"b{n}" for n in range(THERE)], depth=2, **ENDED)
            QueueItem.objects.filter(identifier="http://b.example/b0").update(hash=address_hash("http://b.example/b0"))
        yield database


@pytest.fixture
def control(job, database, settings):
    """Make this database the control partition, and return a function that gives `b` another address."""

    def control(address=database.dsn):
        said = {PARTITION.path: "a", PARTITIONS.path: ("a=postgresql://one/crawl", f"b={address}")}
        settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **said}

    with psycopg.connect(database.dsn, autocommit=True) as there:
        there.execute("UPDATE jobs_partitionedjob SET number = %s", [job.pk])
    control()
    return control


@pytest.fixture
def silent(control, database):
    """Put a proxy in front of `b` that holds all bytes."""
    with Proxy.of_database(database.dsn) as proxy:
        control(proxy.dsn(database.dsn))
        proxy.cut()
        yield


@pytest.fixture(autouse=True)
def asked_again(monkeypatch):
    """Forget which partitions were silent in other tests."""
    monkeypatch.setattr(merged, "_silent_until", {})


def pages(**wanted):
    """Yield the pages of a list one after the other."""
    after = None
    while True:
        found = list_documents_everywhere(DocumentFilter(after=after, **wanted))
        yield found
        after = found.next_key
        if after is None:
            return


def test_pages_of_a_list_merge_the_documents_of_all_partitions(control, job):
    found = list(pages(job_id=job.pk))

    assert [len(page.lines) for page in found] == [A_PAGE, HERE + THERE - A_PAGE]
    lines = [one for page in found for one in page.lines]
    assert all(before.line.hash < after.line.hash for before, after in pairwise(lines))
    assert {one.line.job_id for one in lines} == {job.pk}
    assert {(one.partition, one.line.host) for one in lines} == {("", "a.example"), ("b", "b.example")}


def test_an_order_by_a_value_holds_over_all_partitions(control, job):
    lines = [one.line for page in pages(job_id=job.pk, sort="-depth") for one in page.lines]

    assert [line.depth for line in lines] == [2] * THERE + [1] * HERE


def test_a_document_is_read_where_it_is(control, job):
    story = read_story_everywhere(job_id=job.pk, document=hash_of("b3"), now=NOON)

    assert (story.item.identifier, story.item.job_id, story.job.pk) == ("http://b.example/b3", job.pk, job.pk)


def test_the_page_shows_documents_of_another_partition_without_a_choice(control, job):
    page = client_of("operator").get(f"/documents/?job={job.pk}&host=b.example").content.decode()

    assert page.count("In partition b") == THERE
    assert 'name="document"' not in page


def test_nothing_can_be_written_in_another_partition(control):
    def write():
        PartitionedJob.objects.update(round_no=1)

    assert [one.name for one in read_everywhere(lambda: None, write).silent] == ["b"]


def test_a_silent_partition_is_named_with_the_age_of_its_figures(silent, connection, job):
    tell(connection, "b", "a", "life:all", {})
    connection.execute("UPDATE jobs_partitionfact SET sent_at = now() - interval '10 minutes'")

    page = client_of("viewer").get("/documents/").content.decode()

    assert "Partition b does not answer. Its part is missing here. Its last figures came 10 min ago." in page
    assert page.count("http://a.example/") >= HERE


def test_a_silent_partition_is_waited_for_once_and_then_left_alone_for_a_while(silent):
    began_at = time.monotonic()
    assert list_documents_everywhere(DocumentFilter()).silent
    assert time.monotonic() - began_at < 2 * ANSWERS_WITHIN
    began_at = time.monotonic()

    assert list_documents_everywhere(DocumentFilter()).silent

    assert time.monotonic() - began_at < ANSWERS_WITHIN / 2


def test_an_error_of_a_reading_in_another_partition_is_raised(control):
    def fail():
        raise LookupError("nothing")

    with pytest.raises(LookupError):
        read_everywhere(lambda: None, fail)


# --- Explain -------------------------------------------------------------------------------------


@pytest.fixture
def owners(control, connection):
    """Give partition `b` all hosts but `a.example`."""
    names = ["b"] * SLOTS
    names[slot_of("a.example")] = "a"
    tell(connection, "a", "a", MAP_KEY, SlotMap(1, tuple(names)).as_json())


@pytest.fixture
def patience(monkeypatch):
    """Wait for an answer also on a machine that does other work."""
    monkeypatch.setattr(merged, "ANSWERS_WITHIN", 30.0)


@pytest.mark.usefixtures("owners", "patience")
def test_an_address_is_explained_by_the_partition_that_has_its_host(job):
    found = client_of("operator").get("/api/v1/explain/?url=http://b.example/b0").json()

    assert (found["partition"], found["silent"], found["is_known"]) == ("b", [], True)
    assert [one["job"] for one in found["jobs"]] == [job.pk]
    assert found["jobs"][0]["document"] == f"{job.pk}-{address_hash('http://b.example/b0')}"


@pytest.mark.usefixtures("owners", "patience")
def test_the_page_of_an_explanation_from_elsewhere_has_no_button_that_does_not_work_here():
    page = client_of("operator").get("/explain/?url=http://b.example/b0").content.decode()

    assert "Partition b has this address, and explains it." in page
    assert "Fetch again now" not in page
    assert "/hosts/" not in page.partition("<main")[2]


def test_an_own_address_is_explained_without_the_others(owners, silent):
    QueueItem.objects.filter(identifier="http://a.example/a0").update(hash=address_hash("http://a.example/a0"))

    found = client_of("operator").get("/api/v1/explain/?url=http://a.example/a0").json()

    assert (found["partition"], found["silent"], found["is_known"]) == ("", [], True)


def test_a_silent_partition_of_a_host_is_named(owners, silent):
    page = client_of("operator").get("/explain/?url=http://b.example/b0").content.decode()

    assert "Partition b does not answer." in page
    assert "No job of this partition knows this address." in page
