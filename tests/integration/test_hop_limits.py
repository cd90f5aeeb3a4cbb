"""
Proves that documents beyond a hop limit are never read, leave the outputs, and return when they are near again.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.connectors.repository.base import Ending
from jobs.connectors.repository.web.kind import HOSTS
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.loops.worker.outputs import JobOutputs
from jobs.models import (
    Batch,
    Bin,
    BinLimit,
    CarryDown,
    CounterDelta,
    HopCount,
    IndexedDocument,
    Job,
    Lane,
    LaneState,
    Link,
    OutputConnection,
    QueueItem,
    Turn,
)
from jobs.queue.flushing.flush import flush
from jobs.queue.flushing.hops import rules_of
from jobs.queue.offering.stuff import stuff
from jobs.queue.offering.stuff_removals import stuff_outside, stuff_removals
from jobs.queue.pace.close import ClosedTurn, close_turns
from jobs.queue.release import give_back
from jobs.queue.removing.drop import drop
from jobs.queue.seeds import discover_seeds
from jobs.queue.take import take
from tests.integration.test_hop_counts import LINK_TYPES, NAMES, SEEDS, SITES, chooser, reached
from tests.integration.test_queue_counters import COUNTED, IN_THE_TABLE
from tests.support.cluster import NOON, register_node
from tests.support.factories import (
    facts_of,
    hash_of,
    make_lane,
    make_policy,
    make_reference,
    make_result,
    make_running_job,
)

NOT_READ = {"references": None}


class Crawl:
    """A job with hop limits and an output, and the one worker of the crawl."""

    def __init__(self, connection, limits, *, mode="accurate"):
        self.connection = connection
        self.worker = register_node(connection, "worker")
        output = OutputConnection.objects.get_or_create(name="search", defaults={"connector": "search"})[0]
        self.running = make_running_job(
            register_node(connection, "manager"), policy=make_policy(open_requests=1000), output=output, run_no=0
        )
        self.job, self.lane = self.running.job, make_lane(self.running.seed)
        self.limits = limits
        self.set_mode(mode)
        self.outputs = JobOutputs()

    def set_mode(self, mode):
        Job.objects.filter(pk=self.job.pk).update(hop_limits=self.limits, hop_mode=mode)
        self.hops = rules_of(hop_limits=self.limits, hop_mode=mode)

    @property
    def facts(self):
        return facts_of(self.job, hops=self.hops)

    def begin(self, *seeds):
        """Begin the next run with these seeds."""
        self.job.run_no += 1
        self._enter(Phase.STARTING_UP, run_no=self.job.run_no)
        discover_seeds(
            self.connection,
            manager=self.running.manager.id,
            group=self.running.group,
            job_id=self.job.pk,
            seed_id=self.running.seed.pk,
            urls=self.running.seed.urls,
            bins=HOSTS,
            references=[make_reference(name) for name in seeds],
            now=NOON,
        )
        self._enter(Phase.ACTIVE)

    def claim(self):
        """Hand out all due documents to the worker. Return the claims by name."""
        LaneState.objects.update(ready_at=NOON, head=0)
        stuff(
            self.connection,
            manager=self.running.manager.id,
            group=self.running.group,
            room=1000,
            workers=1,
            now=NOON,
        )
        taken = take(self.connection, worker=self.worker.id, room=1000, idle=True, now=NOON)
        close_turns(self.connection, turns=[ClosedTurn(turn.id, None) for turn in taken.turns], now=NOON)
        claims = [claimed for turn in taken.turns for claimed in turn.documents]
        return {claimed.document.identifier.rpartition("/")[2]: claimed for claimed in claims}

    def read(self, *claims, links=(), **outcome):
        """
        Flush these documents together. `links` has the (name, type) pairs of each document, or one list for all
        documents.
        """
        named = links if isinstance(links, dict) else dict.fromkeys([name_of(claimed) for claimed in claims], links)
        results = []
        for claimed in claims:
            names = [
                make_reference(to, link_type=link_type) for to, link_type in sorted(named.get(name_of(claimed), ()))
            ]
            facts = {"names": names, "text": name_of(claimed)} | outcome
            results.append(make_result(claimed, self.facts, lanes=[self.lane], **facts))
        return flush(self.connection, worker=self.worker.id, results=results, outputs=self.outputs, now=NOON)

    def read_all(self, site, *, choose=set):
        """Read due documents in the chosen groups until none is due."""
        while claims := self.claim():
            group = choose(sorted(claims))
            self.read(*(claims[name] for name in sorted(group)), links=site)
            rest = [claimed for name, claimed in claims.items() if name not in group]
            give_back(self.connection, worker=self.worker.id, claims=rest, now=NOON)

    def claim_outside(self):
        """Claim the documents that a run removes from the outputs before it ends."""
        return self._claim_removals(stuff_outside)

    def claim_removals(self):
        self._enter(Phase.SHUTTING_DOWN)
        return self._claim_removals(stuff_removals)

    def _claim_removals(self, stuff_removals):
        LaneState.objects.update(ready_at=NOON)
        stuff_removals(self.connection, manager=self.running.manager.id, group=self.running.group, room=1000, now=NOON)
        taken = take(self.connection, worker=self.worker.id, room=1000, idle=True, now=NOON)
        return [claimed for claims in taken.removals.values() for claimed in claims]

    def drop(self, claims):
        return drop(
            self.connection,
            worker=self.worker.id,
            claims=claims,
            jobs={self.job.pk: self.facts},
            outputs=self.outputs,
            now=NOON,
        )

    def finish(self):
        """Clean up after the run until no document is left to remove."""
        while claims := self.claim_removals():
            self.drop(claims)

    def _enter(self, phase, **facts):
        Job.objects.filter(pk=self.job.pk).update(phase=phase, **facts)

    # --- State ---

    def stage(self, name):
        return Stage(QueueItem.objects.get(hash=hash_of(name), job=self.job).stage)

    def at(self, stage):
        items = QueueItem.objects.filter(job=self.job, stage=stage, run_no=self.job.run_no)
        return {item.identifier.rpartition("/")[2] for item in items}

    def indexed(self):
        hashes = set(IndexedDocument.objects.values_list("hash", flat=True))
        return {name for name in NAMES if hash_of(name) in hashes}


def name_of(claimed):
    return claimed.document.identifier.rpartition("/")[2]


@pytest.fixture
def crawl(connection):
    return Crawl(connection, {"link": 1})


LINK_TO = {name: [(name, "link")] for name in NAMES}


# --- Examples ------------------------------------------------------------------------------------


def test_documents_beyond_the_limit_are_known_and_not_due(crawl):
    crawl.begin("a")

    crawl.read_all({"a": [("b", "link")], "b": [("c", "link")]})

    assert (crawl.at(Stage.DONE), crawl.at(Stage.HOPCOUNT_REMOVED)) == ({"a", "b"}, {"c"})
    assert not QueueItem.objects.get(hash=hash_of("c")).indexed_before


@pytest.mark.parametrize(("limit", "within"), [(0, set()), (1, {"b"})])
def test_the_first_hop_limits_of_a_job_hold_below_a_page_that_fails(connection, limit, within):
    crawl = Crawl(connection, {})
    crawl.begin("a")
    crawl.read_all({"a": [("b", "link")], "b": [("c", "link")]})
    crawl.limits = {"link": limit}
    crawl.set_mode("accurate")
    crawl.begin("a")

    crawl.read(crawl.claim()["a"], ending=Ending.FAILED, code="500", **NOT_READ)

    assert set(crawl.claim()) == within


def test_a_shorter_path_makes_a_document_due_that_was_too_far_away(crawl):
    crawl.begin("a", "d")
    claims = crawl.claim()
    crawl.read(claims["a"], links=LINK_TO["b"])
    crawl.read(crawl.claim()["b"], links=LINK_TO["c"])
    assert crawl.stage("c") == Stage.HOPCOUNT_REMOVED

    crawl.read(claims["d"], links=LINK_TO["c"])

    assert crawl.stage("c") == Stage.PENDING
    assert list(crawl.claim()) == ["c"]


def test_a_shorter_path_to_its_parent_also_makes_a_document_due(connection):
    crawl = Crawl(connection, {"link": 2})
    crawl.begin("a", "e")
    claims = crawl.claim()
    crawl.read(claims["a"], links=LINK_TO["b"])
    crawl.read(crawl.claim()["b"], links=LINK_TO["c"])
    crawl.read(crawl.claim()["c"], links=LINK_TO["d"])
    assert crawl.stage("d") == Stage.HOPCOUNT_REMOVED

    crawl.read(claims["e"], links=LINK_TO["c"])

    assert crawl.stage("d") == Stage.PENDING


def test_only_links_of_the_limited_type_count_as_hops(crawl):
    crawl.begin("a")

    crawl.read_all({"a": [("b", "redirect")], "b": [("c", "redirect")], "c": [("d", "link")], "d": [("e", "link")]})

    assert crawl.at(Stage.DONE) == {"a", "b", "c", "d"}
    assert crawl.at(Stage.HOPCOUNT_REMOVED) == {"e"}


def test_documents_beyond_the_limit_leave_the_outputs_and_stay_known(crawl):
    crawl.begin("a")
    crawl.read_all({"a": [("b", "link")]})
    crawl.begin("a", "d")
    claims = crawl.claim()
    crawl.read(claims["d"])
    crawl.read(claims["a"], links=LINK_TO["b"])
    crawl.read(crawl.claim()["b"])
    QueueItem.objects.filter(hash=hash_of("a")).update(stage=Stage.PENDING, seq=1)
    crawl.read(crawl.claim()["a"], links=LINK_TO["d"])
    assert (crawl.stage("b"), crawl.indexed()) == (Stage.HOPCOUNT_REMOVED, {"a", "b", "d"})

    crawl.finish()

    assert (crawl.stage("b"), crawl.indexed()) == (Stage.HOPCOUNT_REMOVED, {"a", "d"})


def test_removed_documents_return_when_they_are_near_again(crawl):
    crawl.begin("a")
    crawl.read_all({"a": [("b", "link")]})
    QueueItem.objects.filter(hash=hash_of("a")).update(stage=Stage.PENDING, seq=1)
    crawl.read(crawl.claim()["a"])
    crawl.finish()
    left = (crawl.stage("b"), crawl.indexed())

    crawl.begin("a")
    crawl.read_all({"a": [("b", "link")]})
    crawl.finish()

    assert left == (Stage.HOPCOUNT_REMOVED, {"a"})
    assert (crawl.stage("b"), crawl.indexed()) == (Stage.DONE, {"a", "b"})


def test_a_minimal_run_removes_nothing_from_the_outputs(crawl):
    crawl.begin("a")
    crawl.read_all({"a": [("b", "link")]})
    QueueItem.objects.filter(hash=hash_of("a")).update(stage=Stage.PENDING, seq=1)
    crawl.read(crawl.claim()["a"])
    Job.objects.update(minimal=True)

    crawl.finish()

    assert (crawl.stage("b"), crawl.indexed()) == (Stage.HOPCOUNT_REMOVED, {"a", "b"})
    Job.objects.update(minimal=False)
    crawl.finish()
    assert crawl.indexed() == {"a"}


def test_a_continuous_job_removes_documents_beyond_the_limit_immediately(crawl):
    crawl.begin("a")
    crawl.read_all({"a": [("b", "link"), ("c", "link")]})
    Job.objects.update(kind="continuous")
    QueueItem.objects.filter(hash=hash_of("a")).update(stage=Stage.PENDING, seq=1)
    claimed = crawl.claim()["a"]
    LaneState.objects.update(ready_at=None)

    flushed = crawl.read(claimed, links=LINK_TO["c"])
    assert flushed.lanes == {crawl.lane.pk}
    removals = crawl.claim_outside()
    dropped = crawl.drop(removals)

    assert [name_of(claimed) for claimed in removals] == ["b"]
    assert (dropped.kept, dropped.removed) == (1, 1)
    assert (crawl.stage("b"), crawl.indexed()) == (Stage.HOPCOUNT_REMOVED, {"a", "c"})


def test_a_job_that_ends_removes_documents_beyond_the_limit_at_the_end(crawl):
    crawl.begin("a")
    crawl.read_all({"a": [("b", "link")]})
    QueueItem.objects.filter(hash=hash_of("a")).update(stage=Stage.PENDING, seq=1)
    crawl.read(crawl.claim()["a"])

    assert crawl.claim_outside() == []


def test_a_document_that_moves_beyond_the_limit_leaves_with_its_outcome(crawl):
    crawl.begin("a")
    crawl.read(crawl.claim()["a"], links=LINK_TO["b"])
    crawl.read(crawl.claim()["b"])
    QueueItem.objects.update(stage=Stage.PENDING, seq=1)
    claims = crawl.claim()
    crawl.read(claims["a"])

    crawl.read(claims["b"], links=LINK_TO["c"])

    assert (crawl.stage("b"), crawl.indexed()) == (Stage.HOPCOUNT_REMOVED, {"a"})
    assert not QueueItem.objects.filter(hash=hash_of("c")).exists()


def test_a_document_that_comes_near_during_its_removal_is_read_again(crawl):
    crawl.begin("a", "d")
    crawl.read_all({"a": LINK_TO["b"]})
    QueueItem.objects.filter(hash__in=[hash_of("a"), hash_of("d")]).update(stage=Stage.PENDING, seq=1)
    claims = crawl.claim()
    crawl.read(claims["a"])
    removals = crawl.claim_removals()
    assert [name_of(claimed) for claimed in removals] == ["b"]
    crawl.read(claims["d"], links=LINK_TO["b"])

    dropped = crawl.drop(removals)

    assert (dropped.kept, dropped.removed, dropped.lanes) == (1, 0, {crawl.lane.pk})
    assert (crawl.stage("b"), crawl.indexed()) == (Stage.PENDING, {"a", "b", "d"})


def test_a_document_whose_removal_is_released_stays_beyond_the_limit(crawl):
    crawl.begin("a")
    crawl.read_all({"a": [("b", "link")]})
    QueueItem.objects.filter(hash=hash_of("a")).update(stage=Stage.PENDING, seq=1)
    crawl.read(crawl.claim()["a"])
    removals = crawl.claim_removals()

    give_back(crawl.connection, worker=crawl.worker.id, claims=removals, now=NOON)

    assert crawl.stage("b") == Stage.HOPCOUNT_REMOVED
    crawl.finish()
    assert crawl.indexed() == {"a"}


def test_a_document_that_was_too_far_away_becomes_due_as_a_seed(crawl):
    crawl.begin("a")
    crawl.read_all({"a": [("b", "link")], "b": [("c", "link")]})

    crawl.begin("a", "c")

    assert crawl.stage("c") == Stage.PENDING


def test_a_document_that_was_not_read_keeps_its_links(crawl):
    crawl.begin("a")
    crawl.read_all({"a": [("b", "link")]})
    crawl.begin("a")

    crawl.read(crawl.claim()["a"], ending=Ending.UNCHANGED, code="304", **NOT_READ)

    assert crawl.stage("b") == Stage.PENDING


@pytest.mark.parametrize("mode", ["no_delete", "never_delete"])
def test_no_document_moves_beyond_the_limit_if_deleted_links_still_count(connection, mode):
    crawl = Crawl(connection, {"link": 1}, mode=mode)
    crawl.begin("a")
    crawl.read_all({"a": [("b", "link")]})
    QueueItem.objects.filter(hash=hash_of("a")).update(stage=Stage.PENDING, seq=1)

    crawl.read(crawl.claim()["a"])

    assert crawl.stage("b") == Stage.DONE


@pytest.mark.parametrize("mode", ["no_delete", "never_delete"])
def test_the_first_accurate_run_corrects_counts_by_deleted_links(connection, mode):
    crawl = Crawl(connection, {"link": 1}, mode=mode)
    near, far = {"a": [("b", "link")]}, {"a": [("c", "link")], "c": [("b", "link")]}
    crawl.begin("a")
    crawl.read_all(near)
    crawl.begin("a")
    crawl.read_all(far)
    assert crawl.stage("b") == Stage.DONE

    crawl.set_mode("accurate")
    crawl.begin("a")
    crawl.read_all(far)

    assert crawl.stage("b") == Stage.HOPCOUNT_REMOVED


def test_a_job_without_limits_stores_no_links(connection):
    crawl = Crawl(connection, {})
    crawl.begin("a")

    crawl.read_all({"a": [("b", "link")]})

    assert crawl.at(Stage.DONE) == {"a", "b"}
    assert not Link.objects.exists()
    assert not HopCount.objects.exists()


def test_two_concurrent_flushes_count_a_removed_and_an_added_link(crawl, connection, other_connection, rival):
    crawl.begin("a", "d")
    crawl.read_all({"a": [("b", "link")]})
    QueueItem.objects.filter(hash__in=[hash_of("a"), hash_of("d")]).update(stage=Stage.PENDING, seq=1)
    claims = crawl.claim()
    takes, gives = (
        make_result(claims[name], crawl.facts, lanes=[crawl.lane], names=names)
        for name, names in (("a", ()), ("d", ["b"]))
    )

    with connection.transaction():
        flush(connection, worker=crawl.worker.id, results=[takes], now=NOON)
        rival.start_and_wait(flush, other_connection, worker=crawl.worker.id, results=[gives], now=NOON)
    rival.result()

    assert HopCount.objects.get(hash=hash_of("b")).via == hash_of("d")
    assert crawl.stage("b") == Stage.PENDING


# --- Properties ----------------------------------------------------------------------------------

LIMITS = st.fixed_dictionaries({"link": st.integers(0, 3)}, optional={"redirect": st.integers(0, 2)})

with_database = settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def begin_without_rows(connection, limits, *, kind=Crawl):
    """Return a crawl without rows of an earlier example, because all examples use the same names of documents."""
    for model in (QueueItem, IndexedDocument, Turn, Batch, Lane, BinLimit, Bin, CounterDelta, CarryDown):
        model.objects.all().delete()
    return kind(connection, limits)


def assert_counts_are_exact(connection):
    assert set(connection.execute(COUNTED)) == set(connection.execute(IN_THE_TABLE))


def within_of(site, *, seeds, limits):
    counts = reached(site, seeds=seeds, limits=limits)
    return {name for name in NAMES if all((name, counted) in counts for counted in limits)}


@given(limits=LIMITS, site=SITES, seeds=SEEDS, data=st.data())
@with_database
def test_a_run_reads_the_documents_within_the_limits_in_any_order(connection, limits, site, seeds, data):
    crawl = begin_without_rows(connection, limits)
    crawl.begin(*seeds)

    crawl.read_all(site, choose=chooser(data))

    expected = within_of(site, seeds=seeds, limits=limits)
    assert (crawl.at(Stage.DONE), crawl.indexed()) == (expected, expected)
    known = expected | {to for name in expected for to, _ in site.get(name, ())}
    assert crawl.at(Stage.HOPCOUNT_REMOVED) == known - expected
    assert_counts_are_exact(connection)


@given(
    most=st.integers(0, 3),
    counted=LINK_TYPES,
    sites=st.lists(st.tuples(SITES, SEEDS), min_size=2, max_size=4),
    data=st.data(),
)
@with_database
def test_outputs_hold_the_documents_within_the_limits_after_each_run(connection, most, counted, sites, data):
    limits = {counted: most}
    crawl = begin_without_rows(connection, limits)

    for site, seeds in sites:
        crawl.begin(*seeds)
        crawl.read_all(site, choose=chooser(data))
        crawl.finish()

        expected = within_of(site, seeds=seeds, limits=limits)
        assert (crawl.at(Stage.DONE), crawl.indexed()) == (expected, expected)
        assert_counts_are_exact(connection)
