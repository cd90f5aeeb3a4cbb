"""Proves that a flush gives a document and its links the right state, in this run and over several runs."""

import pytest

from jobs.connectors.repository.base import Ending, RetryLimit
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.loops.worker.known_references import KnownReferences
from jobs.models import Job, LaneState, Outcome, OutLinks, QueueItem
from jobs.queue.flushing.flush import flush
from jobs.queue.offering.stuff import stuff
from jobs.queue.pace.close import ClosedTurn, close_turns
from jobs.queue.sql.order import FIRST_FRESH
from jobs.queue.take import take
from tests.support.cluster import NOON, register_node, seconds
from tests.support.factories import (
    facts_of,
    hash_of,
    make_documents,
    make_lane,
    make_policy,
    make_reference,
    make_result,
    make_running_job,
)

DEPTHS = {"tracks_depth": True, "max_depth": 9}
NOT_READ = {"references": None}


@pytest.fixture
def crawl(connection):
    return OneWorker(connection)


class OneWorker:
    """A running job with one lane, and the one worker of the crawl."""

    def __init__(self, connection, *, worker="n", **facts):
        self.connection = connection
        self.worker = register_node(connection, "worker", name=worker)
        self.running = make_running_job(
            register_node(connection, "manager"), policy=make_policy(open_requests=1000), **facts
        )
        self.job, self.lane = self.running.job, make_lane(self.running.seed)

    def claim(self, *, now=NOON):
        """Hand out all due documents to the worker. Return the claims by name."""
        LaneState.objects.update(ready_at=NOON, head=0)
        stuff(
            self.connection,
            manager=self.running.manager.id,
            group=self.running.group,
            room=1000,
            workers=1,
            now=now,
        )
        taken = take(self.connection, worker=self.worker.id, room=1000, idle=True, now=now)
        turns = [ClosedTurn(turn.id, None) for turn in taken.turns]
        close_turns(self.connection, turns=turns, now=now)
        claims = [claimed for turn in taken.turns for claimed in turn.documents]
        return {claimed.document.identifier.rpartition("/")[2]: claimed for claimed in claims}

    def flush(self, claimed, *, facts=None, now=NOON, **outcome):
        result = make_result(claimed, facts_of(self.job, **(facts or {})), lanes=[self.lane], **outcome)
        return flush(self.connection, worker=self.worker.id, results=[result], now=now)

    def begin_the_next_run(self):
        self.job.run_no += 1
        Job.objects.filter(pk=self.job.pk).update(run_no=self.job.run_no, phase=Phase.ACTIVE)


def document(name):
    return QueueItem.objects.get(hash=hash_of(name))


# --- The document itself -------------------------------------------------------------------------


def test_an_ended_document_is_done_and_has_no_claim(crawl):
    make_documents(crawl.lane, ["page"])

    crawl.flush(crawl.claim()["page"], validators="etag", names=["a", "b"])

    page = document("page")
    assert (page.stage, page.outcome, page.result_code) == (Stage.DONE, Outcome.INDEXED, "200")
    assert (page.batch_id, page.seq, page.check_time, page.indexed_before) == (None, None, None, True)
    assert (page.version, page.validators, page.fetched_at) == ("1:text", "etag", NOON)
    assert set(OutLinks.objects.get(hash=page.hash).targets) == {hash_of("a"), hash_of("b")}


def test_a_retry_waits_for_its_time_and_then_precedes_new_documents(crawl):
    make_documents(crawl.lane, ["page"])
    retry = {"ending": Ending.RETRY, "code": "503", **NOT_READ}

    crawl.flush(crawl.claim()["page"], retry_after=30.0, **retry)
    make_documents(crawl.lane, ["newcomer"])

    page = document("page")
    assert (page.stage, page.check_time, page.failures) == (Stage.PENDING, NOON + seconds(30), 1)
    assert list(crawl.claim(now=NOON + seconds(29))) == ["newcomer"]
    # The first pass finds that the document is due, and gives it its number. The next pass hands it out.
    later = crawl.claim(now=NOON + seconds(31)) | crawl.claim(now=NOON + seconds(32))
    assert (later["page"].document.failures, document("page").seq < FIRST_FRESH) == (1, True)


def test_a_retry_stores_its_limits_of_attempts_and_of_time(crawl):
    make_documents(crawl.lane, ["page", "other"])
    retry = {"ending": Ending.RETRY, "code": "503", **NOT_READ}
    claims = crawl.claim()

    crawl.flush(claims["page"], retry_limit=RetryLimit(attempts=3, seconds=60.0), **retry)
    crawl.flush(claims["other"], **retry)

    assert (document("page").most_failures, document("page").failing_until) == (3, NOON + seconds(60))
    assert (document("other").most_failures, document("other").failing_until) == (None, None)


@pytest.mark.parametrize(
    ("outcome", "is_held"),
    [
        ({"ending": Ending.FAILED, "code": "500", **NOT_READ}, True),
        ({"ending": Ending.FAILED, "code": "404", "references": [], "removes": True}, False),
        ({"ending": Ending.EXCLUDED, "code": "NOINDEX", "removes": True}, False),
        ({"ending": Ending.EXCLUDED, "code": "ROBOTS_UNREACHABLE", **NOT_READ}, True),
    ],
    ids=["500", "404", "NOINDEX", "ROBOTS_UNREACHABLE"],
)
def test_only_the_source_itself_removes_a_document(crawl, outcome, is_held):
    make_documents(crawl.lane, ["page"], indexed_before=True)

    crawl.flush(crawl.claim()["page"], **outcome)

    assert document("page").indexed_before == is_held


def test_an_indexed_document_stays_indexed_when_it_is_found_unchanged(crawl):
    make_documents(crawl.lane, ["page"])
    crawl.flush(crawl.claim()["page"])
    QueueItem.objects.update(stage=Stage.PENDING, seq=FIRST_FRESH)

    crawl.flush(crawl.claim()["page"], ending=Ending.UNCHANGED, code="OK_UNCHANGED")

    assert (document("page").outcome, document("page").result_code) == (Outcome.INDEXED, "200")


def test_an_outcome_without_a_request_returns_its_place_in_the_budget(connection):
    crawl = OneWorker(connection, max_documents=1)
    make_documents(crawl.lane, ["private", "page"])

    excluded = crawl.claim()
    crawl.flush(excluded["private"], ending=Ending.EXCLUDED, code="ROBOTS", requested=False)
    admitted = crawl.claim()

    assert (list(excluded), list(admitted)) == (["private"], ["page"])
    crawl.flush(admitted["page"])
    assert crawl.claim() == {}


# --- Links ---------------------------------------------------------------------------------------


def test_a_stored_link_to_a_dropped_document_hides_it_from_no_other_page(crawl):
    make_documents(crawl.lane, ["page", "other"])
    claims = crawl.claim()
    crawl.flush(claims["page"], names=["child"])
    crawl.flush(claims["other"])
    crawl.connection.execute("DELETE FROM jobs_queueitem WHERE hash = %s", (hash_of("child"),))
    crawl.begin_the_next_run()
    QueueItem.objects.update(run_no=2, stage=Stage.PENDING, seq=FIRST_FRESH)
    known, facts = KnownReferences(), facts_of(crawl.job)
    claims = crawl.claim()

    for name, outcome in {
        "page": {"ending": Ending.UNCHANGED, "code": "304", **NOT_READ},
        "other": {"names": ["child"]},
    }.items():
        result = make_result(claims[name], facts, lanes=[crawl.lane], **outcome)
        flushed = flush(crawl.connection, worker=crawl.worker.id, results=[result], unknown=known.unknown, now=NOON)
        known.add(flushed.named)

    assert (document("child").run_no, document("child").stage) == (2, Stage.PENDING)


def test_a_document_with_many_links_to_it_is_due_once(crawl):
    make_documents(crawl.lane, ["one", "two"])
    claims = crawl.claim()

    for name in ("one", "two"):
        crawl.flush(claims[name], names=["new", "one"])

    assert document("new").stage == Stage.PENDING
    assert document("one").stage == Stage.DONE
    assert list(crawl.claim()) == ["new"]


def test_documents_beyond_the_depth_limit_are_not_stored(crawl):
    make_documents(crawl.lane, ["near"], depth=8)
    make_documents(crawl.lane, ["far"], depth=9)
    claims = crawl.claim()

    crawl.flush(claims["near"], facts=DEPTHS, names=["at limit"])
    crawl.flush(claims["far"], facts=DEPTHS, names=["beyond"])

    assert {item.identifier[-8:] for item in QueueItem.objects.filter(stage=Stage.PENDING)} == {"at limit"}


@pytest.mark.parametrize(("before", "is_read_whole"), [(9, True), (8, False)])
@pytest.mark.parametrize("parents", [["near"], ["far", "near"]], ids=["at once", "later"])
def test_a_document_at_the_depth_limit_is_reread_when_its_depth_decreases(crawl, before, is_read_whole, parents):
    make_documents(crawl.lane, ["page"], depth=before, version="1:text", validators="etag")
    crawl.begin_the_next_run()
    make_documents(crawl.lane, ["near"], depth=1, run_no=2)
    make_documents(crawl.lane, ["far"], depth=before - 1, run_no=2)
    claims = crawl.claim()

    for parent in parents:
        crawl.flush(claims[parent], facts=DEPTHS, names=["page"])

    assert (document("page").depth, document("page").validators) == (2, "" if is_read_whole else "etag")


def test_each_document_keeps_the_links_that_were_read_in_it(crawl):
    make_documents(crawl.lane, ["many", "none", "one"])
    claims = crawl.claim()
    named = {"many": ["a", "b", "c"], "none": [], "one": ["b"]}

    lanes, facts = [crawl.lane], facts_of(crawl.job)
    results = [make_result(claims[name], facts, lanes=lanes, names=names) for name, names in named.items()]
    flush(crawl.connection, worker=crawl.worker.id, results=results, now=NOON)

    stored = {links.hash: links.targets for links in OutLinks.objects.all()}
    assert stored == {hash_of(name): [hash_of(one) for one in names] for name, names in named.items()}


def test_a_redirect_keeps_the_depth_and_counts_as_a_redirect(crawl):
    make_documents(crawl.lane, ["page"], depth=4, redirects=2)

    target = make_reference("target", is_redirect=True)
    crawl.flush(crawl.claim()["page"], facts=DEPTHS, ending=Ending.EXCLUDED, code="REDIRECT", names=[target])

    assert (document("target").depth, document("target").redirects) == (4, 3)


def test_a_shorter_path_to_a_waiting_document_lowers_its_distance(crawl):
    make_documents(crawl.lane, ["page"], depth=1)
    claimed = crawl.claim()["page"]
    make_documents(crawl.lane, ["target"], depth=5)

    crawl.flush(claimed, facts=DEPTHS, names=["target"])

    assert (document("target").depth, document("target").stage) == (2, Stage.PENDING)


def test_a_shorter_path_to_a_read_document_makes_it_reread_unconditionally(crawl):
    make_documents(crawl.lane, ["target"], depth=5, validators="etag", version="1:text")
    make_documents(crawl.lane, ["page"], depth=1)
    claims = crawl.claim()
    crawl.flush(claims["target"], facts=DEPTHS, validators="etag")

    crawl.flush(claims["page"], facts=DEPTHS, names=["target"])

    target = document("target")
    assert (target.depth, target.stage, target.validators) == (2, Stage.PENDING, "")
    assert crawl.claim()["target"].document.depth == 2


def test_a_shorter_path_to_a_document_in_progress_makes_it_reread(crawl):
    make_documents(crawl.lane, ["target"], depth=5)
    make_documents(crawl.lane, ["page"], depth=1)
    claims = crawl.claim()

    crawl.flush(claims["page"], facts=DEPTHS, names=["target"])
    assert (document("target").stage, document("target").rescan) == (Stage.ACTIVE, True)
    crawl.flush(claims["target"], facts=DEPTHS, validators="etag")

    target = document("target")
    assert (target.stage, target.rescan, target.validators, target.depth) == (Stage.PENDING, False, "", 2)


def test_a_longer_path_changes_nothing(crawl):
    make_documents(crawl.lane, ["target", "page"], depth=2)
    claims = crawl.claim()
    crawl.flush(claims["target"], facts=DEPTHS)

    crawl.flush(claims["page"], facts=DEPTHS, names=["target"])

    assert (document("target").depth, document("target").stage) == (2, Stage.DONE)


# --- Several runs --------------------------------------------------------------------------------


def test_documents_of_an_earlier_run_return_when_this_run_links_to_them(crawl):
    make_documents(crawl.lane, ["page", "linked", "forgotten"])
    for claimed in crawl.claim().values():
        crawl.flush(claimed, names=["linked", "forgotten"])
    crawl.begin_the_next_run()
    make_documents(crawl.lane, ["seed"])

    crawl.flush(crawl.claim()["seed"], names=["linked"])

    assert (document("linked").run_no, document("linked").stage) == (2, Stage.PENDING)
    assert (document("forgotten").run_no, document("forgotten").stage) == (1, Stage.DONE)
    assert document("linked").version == "1:text"


@pytest.mark.parametrize(
    "outcome",
    [
        {"ending": Ending.UNCHANGED, "code": "304", **NOT_READ},
        {"ending": Ending.FAILED, "code": "500", **NOT_READ},
        {"ending": Ending.FAILED, "code": "DNS", **NOT_READ},
    ],
    ids=lambda outcome: outcome["code"],
)
def test_a_document_that_is_not_reread_still_keeps_its_links(crawl, outcome):
    make_documents(crawl.lane, ["parent"])
    crawl.flush(crawl.claim()["parent"], names=["child"])
    crawl.flush(crawl.claim()["child"])
    crawl.begin_the_next_run()
    QueueItem.objects.filter(hash=hash_of("parent")).update(stage=Stage.PENDING, seq=FIRST_FRESH, run_no=2)

    crawl.flush(crawl.claim()["parent"], **outcome)

    assert (document("child").run_no, document("child").stage) == (2, Stage.PENDING)


def test_a_removed_document_has_no_links(crawl):
    make_documents(crawl.lane, ["parent"])
    crawl.flush(crawl.claim()["parent"], names=["child"])
    crawl.flush(crawl.claim()["child"])
    crawl.begin_the_next_run()
    QueueItem.objects.filter(hash=hash_of("parent")).update(stage=Stage.PENDING, seq=FIRST_FRESH, run_no=2)

    crawl.flush(crawl.claim()["parent"], ending=Ending.FAILED, code="404", references=[], removes=True)

    assert document("child").run_no == 1


def test_a_redirect_in_a_later_run_is_handled_as_in_the_first_run(crawl):
    """In a loop of two redirects, rows of an older run must not decide which redirect closes the loop."""
    redirect = {"ending": Ending.EXCLUDED, "code": "REDIRECT"}

    def codes_of_a_run():
        make_documents_due("a", "b", run_no=crawl.job.run_no)
        claims = crawl.claim()
        crawl.flush(claims["a"], names=["b"], **redirect)
        crawl.flush(claims["b"], names=["a"], **redirect)
        return document("a").result_code, document("b").result_code

    make_documents(crawl.lane, ["a", "b"])
    first = codes_of_a_run()
    crawl.begin_the_next_run()
    second = codes_of_a_run()

    assert first == second == ("REDIRECT", "REDIRECT_LOOP")


def make_documents_due(*names, run_no):
    for number, name in enumerate(names):
        QueueItem.objects.filter(hash=hash_of(name)).update(
            stage=Stage.PENDING, seq=FIRST_FRESH + number, run_no=run_no
        )
