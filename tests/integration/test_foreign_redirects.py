"""Proves that redirects through several partitions have the same results as in one database."""

from itertools import pairwise

import pytest

from jobs.connectors.repository.base import Ending
from jobs.connectors.repository.web.kind import HOSTS
from jobs.duties.exchange import forget_references
from jobs.lifecycle.job import Phase
from jobs.models import ForeignReference, Job, LaneState, PartitionedJob, QueueItem, RedirectEdge
from jobs.queue.flushing.arrivals import apply_arrivals
from jobs.queue.flushing.flush import flush
from jobs.queue.flushing.outcomes import Partitioned
from jobs.queue.offering.stuff import stuff
from jobs.queue.pace.close import ClosedTurn, close_turns
from jobs.queue.take import take
from tests.support.cluster import NOON, elect_main, register_node
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
from tests.support.stepping import Main

NUMBER = 7
SEED = "http://a.example/"


class Partitions:
    """
    Several partitions, each of which is a separate job in one database. Document `b1` is on the host `b.example`.

    Rows of references and redirects name the partition or its job, so each row belongs to one partition.
    """

    def __init__(self, connection, names):
        self.connection, self.names = connection, names
        self.worker, manager = register_node(connection, "worker"), register_node(connection, "manager")
        self.term = elect_main(connection, manager)
        self.running = {name: make_running_job(manager, policy=make_policy(open_requests=1000)) for name in names}
        for running in self.running.values():
            running.seed.urls = [SEED]
            running.seed.save()

    def seed(self, name):
        make_documents(make_lane(self.running[name[0]].seed, f"{name[0]}.example"), [name])

    def crawl(self, leads_to):
        """
        Fetch due documents, in one partition after the other, until no document is due. Return the fetched documents in
        order.
        """
        fetched = []
        while more := self._fetch_all(leads_to):
            fetched += more
        return fetched

    def _fetch_all(self, leads_to):
        return [name for here in self.names for name in self._fetch(here, leads_to)]

    def _fetch(self, here, leads_to):
        running = self.running[here]
        apply_arrivals(
            self.connection, term=self.term, here=here, number=NUMBER, job_id=running.job.pk, run_no=1, bins=HOSTS,
            now=NOON,
        )  # fmt: skip
        foreign = {f"{name}.example": name for name in self.names if name != here}
        facts = facts_of(
            running.job, partitioned=Partitioned(here, NUMBER, foreign.get), tracks_depth=True, max_depth=9
        )
        fetched = []
        for claimed in self._claim(running):
            name = claimed.document.identifier.rpartition("/")[2]
            result = make_result(claimed, facts, lanes=list_lanes(running), **_outcome(leads_to.get(name)))
            flush(self.connection, worker=self.worker.id, results=[result], now=NOON)
            fetched.append(name)
        return fetched

    def _claim(self, running):
        LaneState.objects.update(ready_at=NOON, head=0)
        stuff(self.connection, manager=running.manager.id, group=running.group, room=1000, workers=1, now=NOON)
        taken = take(self.connection, worker=self.worker.id, room=1000, idle=True, now=NOON)
        close_turns(self.connection, turns=[ClosedTurn(turn.id, None) for turn in taken.turns], now=NOON)
        return [claimed for turn in taken.turns for claimed in turn.documents]

    def codes(self):
        rows = QueueItem.objects.values_list("identifier", "result_code")
        return {identifier.rpartition("/")[2]: code for identifier, code in rows}


def _outcome(target):
    if target is None:
        return {}
    reference = make_reference(target, host=f"{target[0]}.example", is_redirect=True)
    return {"names": [reference], "ending": Ending.EXCLUDED, "code": "REDIRECT"}


def list_lanes(running):
    return list(running.seed.lanes.select_related("bin"))


def chain(*names):
    return dict(pairwise(names))


@pytest.fixture
def partitions(connection):
    return Partitions(connection, "abcd")


def test_a_chain_over_four_partitions_keeps_the_depth_of_its_start(partitions):
    partitions.seed("a1")

    fetched = partitions.crawl(chain("a1", "b1", "c1", "d1", "a2"))

    assert sorted(fetched) == ["a1", "a2", "b1", "c1", "d1"]
    assert partitions.codes() == {**dict.fromkeys(["a1", "b1", "c1", "d1"], "REDIRECT"), "a2": "200"}
    assert list(QueueItem.objects.filter(hash=hash_of("a2")).values_list("depth", "redirects")) == [(0, 4)]


def test_a_loop_through_two_partitions_is_found_where_it_closes(partitions):
    partitions.seed("a1")

    fetched = partitions.crawl(chain("a1", "b1", "a1"))

    assert fetched == ["a1", "b1"]
    assert partitions.codes() == {"a1": "REDIRECT", "b1": "REDIRECT_LOOP"}


def test_a_loop_through_four_partitions_is_found_where_it_closes(partitions):
    partitions.seed("a1")

    partitions.crawl(chain("a1", "a2", "b1", "b2", "c1", "d1", "a1"))

    codes = partitions.codes()
    assert codes.pop("d1") == "REDIRECT_LOOP"
    assert set(codes.values()) == {"REDIRECT"}


def test_a_loop_is_found_although_links_led_to_its_documents_before(partitions):
    partitions.seed("a1")
    partitions.seed("b1")

    partitions.crawl(chain("a1", "b1", "a1"))

    assert sorted(partitions.codes().values()) == ["REDIRECT", "REDIRECT_LOOP"]


def test_a_redirect_that_leads_into_a_loop_does_not_count_as_part_of_it(partitions):
    partitions.seed("c1")

    partitions.crawl({"c1": "a1", **chain("a1", "b1", "a1")})

    assert partitions.codes() == {"c1": "REDIRECT", "a1": "REDIRECT", "b1": "REDIRECT_LOOP"}


def test_redirects_are_counted_across_partitions(partitions):
    names = [f"{'abcd'[number % 4]}{number}" for number in range(12)]
    partitions.seed(names[0])

    partitions.crawl(chain(*names))

    assert QueueItem.objects.get(hash=hash_of(names[-1])).redirects == 11


def test_many_redirects_to_one_document_create_it_once(partitions):
    for number in range(3):
        partitions.seed(f"a{number}")

    fetched = partitions.crawl({f"a{number}": "b1" for number in range(3)})

    assert fetched.count("b1") == 1
    assert RedirectEdge.objects.filter(job=partitions.running["b"].job).count() == 3


def test_redirects_are_forgotten_when_their_run_has_ended(connection):
    main = Main(connection)
    job = make_running_job(main.node).job
    PartitionedJob.objects.create(job=job, number=NUMBER)
    RedirectEdge.objects.create(hash=hash_of("a"), job=job, target=hash_of("b"), run_no=1)
    main.step(forget_references)
    assert RedirectEdge.objects.exists()

    Job.objects.update(phase=Phase.INACTIVE)
    main.step(forget_references)

    assert not RedirectEdge.objects.exists()
    assert not ForeignReference.objects.exists()
