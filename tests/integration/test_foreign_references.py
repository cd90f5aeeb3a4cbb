"""Proves that a flush sends each reference to another partition once, and that arrived references become documents."""

import uuid
from hashlib import md5

import pytest

from jobs.connectors.repository.base import Ending
from jobs.connectors.repository.web.kind import HOSTS
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.models import AppliedReferences, ForeignReference, Job, LaneState, PartitionedJob, QueueItem
from jobs.queue.flushing.arrivals import apply_arrivals
from jobs.queue.flushing.outcomes import Partitioned
from nodes.membership.fences import FenceRefused, TermHeld
from tests.integration.test_queue_flush import NOT_READ, OneWorker, document
from tests.support.cluster import NOON, elect_main
from tests.support.factories import hash_of, make_documents, make_reference

AWAY = "away.example"
NUMBER = 7
IN_PARTITIONS = {"partitioned": Partitioned("a", NUMBER, lambda host: "b" if host == AWAY else None)}
DEPTHS = {**IN_PARTITIONS, "tracks_depth": True, "max_depth": 9}


@pytest.fixture
def crawl(connection):
    return OneWorker(connection)


def link_away(name="away", **facts):
    return make_reference(name, host=AWAY, **facts)


def sent():
    columns = ("target", "job_number", "run_no", "identifier", "bin", "depth", "redirects")
    return list(ForeignReference.objects.filter(source="a").order_by("number").values_list(*columns))


# --- Sending -------------------------------------------------------------------------------------


def test_a_link_to_another_partition_is_sent_and_makes_no_local_document(crawl):
    make_documents(crawl.lane, ["page"])

    crawl.flush(crawl.claim()["page"], facts=IN_PARTITIONS, names=[link_away(), "here"])

    assert sent() == [("b", NUMBER, 1, f"http://{AWAY}/away", AWAY, 1, 0)]
    assert set(QueueItem.objects.values_list("hash", flat=True)) == {hash_of("page"), hash_of("here")}
    seed_address = crawl.running.seed.urls[0]
    assert ForeignReference.objects.get().seed == uuid.UUID(md5(seed_address.encode()).hexdigest())


def test_a_redirect_to_another_partition_keeps_its_depth_and_is_counted(crawl):
    make_documents(crawl.lane, ["page"], depth=3, redirects=1)

    crawl.flush(
        crawl.claim()["page"],
        facts=IN_PARTITIONS,
        names=[link_away(is_redirect=True)],
        ending=Ending.EXCLUDED,
        code="REDIRECT",
    )

    assert sent() == [("b", NUMBER, 1, f"http://{AWAY}/away", AWAY, 3, 2)]


def test_a_link_of_two_pages_is_sent_once(crawl):
    make_documents(crawl.lane, ["one", "two"])
    claims = crawl.claim()

    crawl.flush(claims["one"], facts=IN_PARTITIONS, names=[link_away()])
    crawl.flush(claims["two"], facts=IN_PARTITIONS, names=[link_away()])

    assert len(sent()) == 1


def test_a_link_with_a_shorter_path_is_sent_again(crawl):
    make_documents(crawl.lane, ["far"], depth=5)
    make_documents(crawl.lane, ["near"], depth=2)
    claims = crawl.claim()

    crawl.flush(claims["far"], facts=DEPTHS, names=[link_away()])
    crawl.flush(claims["near"], facts=DEPTHS, names=[link_away()])

    assert [depth for *_, depth, _ in sent()] == [6, 3]


def test_a_link_beyond_the_depth_limit_is_not_sent(crawl):
    make_documents(crawl.lane, ["page"], depth=9)

    crawl.flush(crawl.claim()["page"], facts=DEPTHS, names=[link_away()])

    assert sent() == []


def test_an_unread_page_sends_its_stored_links_in_the_next_run(crawl):
    make_documents(crawl.lane, ["page"])
    crawl.flush(crawl.claim()["page"], facts=IN_PARTITIONS, names=[link_away()])
    crawl.begin_the_next_run()
    QueueItem.objects.update(run_no=2, stage=Stage.PENDING, seq=1)

    crawl.flush(crawl.claim()["page"], facts=IN_PARTITIONS, ending=Ending.UNCHANGED, code="304", **NOT_READ)

    assert [run for _, _, run, *_ in sent()] == [1, 2]
    assert sent()[1][3] == f"http://{AWAY}/away"


def test_a_flush_without_its_claim_sends_no_reference(crawl):
    make_documents(crawl.lane, ["page"])
    claimed = crawl.claim()["page"]
    QueueItem.objects.update(batch=None, stage=Stage.PENDING, seq=1)

    crawl.flush(claimed, facts=IN_PARTITIONS, names=[link_away()])

    assert sent() == []


# --- Arrivals ------------------------------------------------------------------------------------


@pytest.fixture
def arrivals(connection):
    return Arrivals(connection)


class Arrivals:
    """A partition `b` in run 1 of a job, and rows that logical replication has brought from `a`."""

    def __init__(self, connection):
        self.crawl = OneWorker(connection)
        self.job, self.seed = self.crawl.job, self.crawl.running.seed
        PartitionedJob.objects.create(job=self.job, number=NUMBER)
        self.term = elect_main(connection, self.crawl.running.manager)
        self.numbers = iter(range(1, 1000))

    def bring(self, name, *, run_no=1, depth=1, tracks_depth=False, seed_address=None):
        address = seed_address or self.seed.urls[0]
        ForeignReference.objects.create(
            source="a",
            number=next(self.numbers),
            target="b",
            job_number=NUMBER,
            run_no=run_no,
            hash=hash_of(name),
            identifier=f"http://b.example/{name}",
            bin="b.example",
            seed=uuid.UUID(md5(address.encode()).hexdigest()),
            depth=depth,
            redirects=0,
            tracks_depth=tracks_depth,
            found_on=hash_of("source"),
        )

    def apply(self, *, term=None, run_no=1, foreign=lambda host: None):
        return apply_arrivals(
            self.crawl.connection,
            term=term or self.term,
            here="b",
            number=NUMBER,
            job_id=self.job.pk,
            run_no=run_no,
            bins=HOSTS,
            now=NOON,
            foreign=foreign,
        )


def test_an_arrived_reference_becomes_a_due_document_of_its_seed(arrivals):
    arrivals.bring("page", depth=4)

    assert arrivals.apply() == 1

    page = document("page")
    assert (page.stage, page.run_no, page.depth) == (Stage.PENDING, 1, 4)
    assert (page.lane.seed_id, page.lane.bin.name) == (arrivals.seed.pk, "b.example")
    assert LaneState.objects.get(lane=page.lane).ready_at is not None
    assert not ForeignReference.objects.exists()
    assert AppliedReferences.objects.get().amount == 1


def test_an_arrived_reference_of_an_unknown_seed_goes_to_the_first_seed(arrivals):
    arrivals.bring("page", seed_address="http://elsewhere.example/")

    arrivals.apply()

    assert document("page").lane.seed_id == arrivals.seed.pk


def test_an_arrived_reference_adds_a_document_of_an_earlier_run_to_this_run(arrivals):
    make_documents(arrivals.crawl.lane, ["page"], run_no=0, stage=Stage.DONE, seq=None)
    arrivals.bring("page")

    arrivals.apply()

    assert (document("page").run_no, document("page").stage) == (1, Stage.PENDING)


def test_a_reference_to_a_finished_document_changes_nothing(arrivals):
    make_documents(arrivals.crawl.lane, ["page"], stage=Stage.DONE, seq=None, depth=2)
    arrivals.bring("page", depth=2, tracks_depth=True)

    arrivals.apply()

    assert document("page").stage == Stage.DONE
    assert AppliedReferences.objects.get().amount == 1


def test_a_reference_to_a_known_document_of_the_run_is_only_counted(arrivals):
    make_documents(arrivals.crawl.lane, ["page"], stage=Stage.DONE, seq=None, depth=2)
    arrivals.bring("page", depth=1)
    arrivals.bring("new")

    assert arrivals.apply() == 2

    assert (document("page").stage, document("page").depth) == (Stage.DONE, 2)
    assert document("new").stage == Stage.PENDING
    assert not ForeignReference.objects.exists()
    assert AppliedReferences.objects.get().amount == 2


def test_arrived_references_to_a_known_host_use_up_no_ids_of_bins_or_lanes(arrivals):
    numbers = "SELECT last_value FROM jobs_bin_id_seq UNION ALL SELECT last_value FROM jobs_lane_id_seq"
    arrivals.bring("one")
    arrivals.apply()
    drawn = arrivals.crawl.connection.execute(numbers).fetchall()

    arrivals.bring("two")
    arrivals.apply()

    assert document("two").lane == document("one").lane
    assert arrivals.crawl.connection.execute(numbers).fetchall() == drawn


def test_a_reference_by_a_shorter_path_makes_a_finished_document_due_again(arrivals):
    make_documents(arrivals.crawl.lane, ["page"], stage=Stage.DONE, seq=None, depth=5)
    arrivals.bring("page", depth=2, tracks_depth=True)

    arrivals.apply()

    assert (document("page").stage, document("page").depth) == (Stage.PENDING, 2)


def test_the_least_depth_of_several_arrived_references_counts(arrivals):
    for depth in (5, 2, 3):
        arrivals.bring("page", depth=depth, tracks_depth=True)

    assert arrivals.apply() == 3

    assert document("page").depth == 2
    assert AppliedReferences.objects.get().amount == 3


def test_an_arrived_reference_for_a_run_that_has_not_begun_waits(arrivals):
    arrivals.bring("page", run_no=2)

    assert arrivals.apply(run_no=2) == 0
    assert ForeignReference.objects.count() == 1


def test_an_arrived_reference_for_a_stopped_job_waits(arrivals):
    arrivals.bring("page")
    Job.objects.update(phase=Phase.SHUTTING_DOWN)

    assert arrivals.apply() == 0
    assert ForeignReference.objects.count() == 1


def test_an_arrived_reference_to_a_host_that_has_moved_is_sent_on(arrivals):
    arrivals.bring("page", depth=4)

    assert arrivals.apply(foreign=lambda host: "c") == 1

    on = ForeignReference.objects.get()
    assert (on.source, on.target, on.hash, on.depth, on.run_no) == ("b", "c", hash_of("page"), 4, 1)
    assert AppliedReferences.objects.get().amount == 1
    assert not QueueItem.objects.exists()


def test_a_replaced_main_manager_applies_no_arrived_reference(arrivals):
    arrivals.bring("page")
    stale = TermHeld(scope=arrivals.term.scope, term=arrivals.term.term - 1, main_id=arrivals.term.main_id)

    with pytest.raises(FenceRefused):
        arrivals.apply(term=stale)

    assert ForeignReference.objects.count() == 1
    assert not QueueItem.objects.exists()
