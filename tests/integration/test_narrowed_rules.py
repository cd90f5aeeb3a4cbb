"""Proves that stored links of a page that was not read are checked against the present rules of their job."""

import asyncio

import psycopg
import pytest
from psycopg.rows import namedtuple_row

from jobs.connectors.repository.base import Ending
from jobs.lifecycle.document import Stage
from jobs.loops.worker.jobs import JobTable, read_job
from jobs.models import Job, OutLinks, QueueItem
from jobs.queue.flushing.flush import flush
from jobs.queue.flushing.recrawl import Intervals
from jobs.queue.flushing.stored_links import read_stored_links
from jobs.verbs import editing
from jobs.verbs.seeds import SeedWanted
from tests.integration.test_queue_flush import OneWorker
from tests.support.cluster import NOON
from tests.support.factories import facts_of, hash_of, make_documents, make_job, make_lane, make_result

FAILED = {"ending": Ending.FAILED, "code": "500", "references": None}
REFUSED = {
    "ending": Ending.EXCLUDED,
    "code": "OUT_OF_SCOPE",
    "version": "",
    "validators": "",
    "removes": True,
    "is_refused": True,
}
NOT_MODIFIED = {"ending": Ending.UNCHANGED, "code": "304", "references": None}


class CountingCursor(psycopg.Cursor):
    statements = 0

    def execute(self, *args, **kwargs):
        self.statements += 1
        return super().execute(*args, **kwargs)


def refuses(*words):
    return lambda identifier: not any(word in identifier for word in words)


@pytest.fixture
def crawl(connection):
    """Return a crawl whose first run read a page with two links, and whose second run has begun."""
    crawl = OneWorker(connection)
    make_documents(crawl.lane, ["page"])
    crawl.flush(crawl.claim()["page"], names=["kept", "private"])
    for claimed in crawl.claim().values():
        crawl.flush(claimed)
    crawl.begin_the_next_run()
    QueueItem.objects.filter(hash=hash_of("page")).update(stage=Stage.PENDING, seq=1, run_no=crawl.job.run_no)
    return crawl


def pending(crawl):
    """Return the names of the documents that the present run is to read."""
    rows = QueueItem.objects.filter(run_no=crawl.job.run_no, stage=Stage.PENDING)
    return {row.identifier.rpartition("/")[2] for row in rows}


@pytest.mark.parametrize("version", ["1:text", ""], ids=["indexed before", "never indexed"])
def test_a_failing_page_keeps_only_stored_links_that_the_rules_admit(crawl, version):
    rules = {"specification_version": 2, "admits": refuses("private")}

    crawl.flush(crawl.claim()["page"], facts=rules, version=version, **FAILED)

    assert pending(crawl) == {"kept"}


def test_refused_documents_stay_in_the_older_run_for_the_clean_up(crawl):
    crawl.flush(crawl.claim()["page"], facts={"specification_version": 2, "admits": refuses("private")}, **FAILED)

    refused = QueueItem.objects.get(hash=hash_of("private"))
    assert (refused.run_no, refused.stage, refused.indexed_before) == (crawl.job.run_no - 1, Stage.DONE, True)


@pytest.mark.parametrize(
    ("row", "facts", "run", "stage", "is_held"),
    [
        ({}, {}, 1, Stage.DONE, True),
        ({"rescan": True}, {}, 2, Stage.PENDING, True),
        ({"indexed_before": False}, {}, 2, Stage.DONE, False),
        ({}, {"intervals": Intervals()}, 2, Stage.DONE, False),
    ],
    ids=["held by outputs", "read again", "new", "continuous"],
)
def test_a_waiting_document_that_the_rules_refuse_is_left_to_the_clean_up(crawl, row, facts, run, stage, is_held):
    claimed = crawl.claim()["page"]
    QueueItem.objects.filter(hash=hash_of("page")).update(**row)

    crawl.flush(claimed, facts=facts, **REFUSED)

    page = QueueItem.objects.get(hash=hash_of("page"))
    assert (page.run_no, page.stage, page.indexed_before, page.version) == (
        run,
        stage,
        is_held,
        claimed.document.version if is_held else "",
    )


def test_the_stored_target_of_a_failing_redirect_is_checked_by_the_rules(crawl):
    OutLinks.objects.filter(hash=hash_of("page")).update(targets=[hash_of("private")], is_redirect=True)

    crawl.flush(crawl.claim()["page"], facts={"specification_version": 2, "admits": refuses("private")}, **FAILED)

    assert pending(crawl) == set()


def test_a_new_greatest_depth_holds_below_a_page_that_fails(crawl):
    crawl.flush(crawl.claim()["page"], facts={"tracks_depth": True, "max_depth": 0}, **FAILED)

    assert pending(crawl) == set()


def test_rules_that_are_widened_again_admit_the_stored_links_again(crawl):
    crawl.flush(crawl.claim()["page"], facts={"specification_version": 2, "admits": refuses("private")}, **FAILED)
    crawl.begin_the_next_run()
    QueueItem.objects.filter(hash=hash_of("page")).update(stage=Stage.PENDING, seq=1, run_no=crawl.job.run_no)

    crawl.flush(crawl.claim()["page"], facts={"specification_version": 3, "admits": refuses()}, **FAILED)

    assert pending(crawl) == {"kept", "private"}


def test_a_connector_without_rules_keeps_all_stored_links(crawl):
    crawl.flush(crawl.claim()["page"], facts={"specification_version": 2, "admits": None}, **FAILED)

    assert pending(crawl) == {"kept", "private"}


@pytest.mark.parametrize(
    ("outcome", "statements"),
    [
        pytest.param({**NOT_MODIFIED, "version": "1:text"}, 1, id="unchanged under the present rules"),
        pytest.param({**NOT_MODIFIED, "version": "1+carried:text"}, 1, id="unchanged, with carried values"),
        pytest.param({**FAILED, "version": "0:text"}, 2, id="failed, read under older rules"),
    ],
)
def test_only_links_stored_under_older_rules_cost_a_statement(crawl, outcome, statements):
    facts = facts_of(crawl.job, specification_version=1, admits=refuses("private"))
    result = make_result(crawl.claim()["page"], facts, **outcome)

    with CountingCursor(crawl.connection, row_factory=namedtuple_row) as cursor:
        list(read_stored_links(cursor, {(hash_of("page").hex, crawl.job.pk): result}))

    assert cursor.statements == statements


def test_a_worker_asks_the_connector_of_the_job_about_stored_links(crawl):
    Job.objects.filter(pk=crawl.job.pk).update(
        specification={**crawl.job.specification, "exclude": ["private"]}, specification_version=2
    )
    row, claimed = read_job(crawl.connection, job_id=crawl.job.pk), crawl.claim()["page"]

    async def facts():
        table = JobTable()
        table.add(row)
        try:
            return table.find(claimed).facts
        finally:
            await table.close()

    of_job = asyncio.run(facts())
    assert of_job.configuration == "2"
    assert of_job.admits("http://a.example/kept")
    assert not of_job.admits("http://a.example/private")


def test_an_unchanged_page_forgets_its_links_to_the_host_of_a_removed_seed(connection):
    """Otherwise they would be read, refused and immediately removed, without the delete guard."""
    crawl = OneWorker(connection, urls=["http://a.example/", "http://b.example/"])
    elsewhere = make_lane(crawl.running.seed, "b.example")
    before = str(crawl.job.specification_version)
    make_documents(crawl.lane, ["page"], run_no=1, version=f"{before}:text")
    make_documents(elsewhere, ["theirs"], run_no=1, stage=Stage.DONE, indexed_before=True)
    OutLinks.objects.create(hash=hash_of("page"), job_id=crawl.job.pk, targets=[hash_of("theirs")])
    Job.objects.update(phase="inactive")

    editing.change_job(crawl.job.pk, seeds=[SeedWanted(("http://a.example/",))], made_by="a test", now=NOON)
    crawl.begin_the_next_run()
    QueueItem.objects.filter(hash=hash_of("page")).update(stage=Stage.PENDING, seq=1, run_no=crawl.job.run_no)
    claimed = crawl.claim()["page"]
    facts = asyncio.run(facts_at_a_worker(read_job(connection, job_id=crawl.job.pk), claimed))
    result = make_result(claimed, facts, **{**NOT_MODIFIED, "version": f"{before}:text"})
    flush(connection, worker=crawl.worker.id, results=[result], now=NOON)

    assert pending(crawl) == set()


async def facts_at_a_worker(row, claimed):
    table = JobTable()
    table.add(row)
    try:
        return table.find(claimed).facts
    finally:
        await table.close()


def test_an_additional_seed_address_causes_no_rereading_of_documents(connection):
    job = make_job(urls=["http://a.example/"])
    more = [SeedWanted(("http://a.example/", "http://b.example/"))]

    added = editing.change_job(job.pk, seeds=more, made_by="a test", now=NOON).job.specification_version
    removed = editing.change_job(job.pk, seeds=more[:1], made_by="a test", now=NOON).job.specification_version
    fewer = [SeedWanted(("http://b.example/",))]
    narrowed = editing.change_job(job.pk, seeds=fewer, made_by="a test", now=NOON).job.specification_version

    assert (added, removed, narrowed) == (job.specification_version,) * 2 + (job.specification_version + 1,)
