"""Proves that hop counts match the present links after any order of reads, drops and changes of seeds."""

import heapq
import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.models import HopCount, Link
from jobs.queue.flushing.hops import HopGraph, HopRules
from jobs.queue.sql.rows import named_rows
from tests.support.factories import hash_of

NAMES = "abcdefgh"
HASHES = {name: hash_of(name).hex for name in NAMES}
NAME_OF = {hash_: name for name, hash_ in HASHES.items()}
ROOT = "seeds"

_jobs = itertools.count(1)

with_database = settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
LINK_TYPES = st.sampled_from(["link", "redirect"])
LINKS = st.frozensets(st.tuples(st.sampled_from(NAMES), LINK_TYPES), max_size=4)
ONE_LIMIT = st.integers(0, 3).map(lambda most: {"link": most})
TWO_LIMITS = st.fixed_dictionaries({"link": st.integers(0, 3), "redirect": st.integers(0, 2)})
SITES = st.dictionaries(st.sampled_from(NAMES), LINKS)
SEEDS = st.frozensets(st.sampled_from(NAMES), min_size=1, max_size=2)


# --- The expected counts -------------------------------------------------------------------------


def counts_of(links, *, seeds, limits):
    """Return {(document, type): count} up to the limits, by Dijkstra's algorithm for one type of link at a time."""
    found = {}
    for counted, most in limits.items():
        heap = [(0, seed) for seed in seeds]
        while heap:
            distance, name = heapq.heappop(heap)
            if distance > most or found.setdefault((name, counted), distance) < distance:
                continue
            for target, link_type in links.get(name, ()):
                if (target, counted) not in found:
                    heapq.heappush(heap, (distance + (link_type == counted), target))
    return found


def within(counts, limits):
    return {name for name in NAMES if all((name, counted) in counts for counted in limits)}


class Expected:
    """The known links, by a simple implementation of the rules. It computes the counts again each time."""

    def __init__(self, limits, *, is_accurate):
        self.limits, self.is_accurate = limits, is_accurate
        self.links, self.seeds = {}, set()

    @property
    def counts(self):
        return counts_of(self.links, seeds=self.seeds, limits=self.limits)

    @property
    def within(self):
        return within(self.counts, self.limits)

    def read(self, links):
        waiting, before = set(links), dict(self.links)
        while ready := waiting & self.within:
            waiting -= ready
            for name in ready:
                self.links[name] = before.get(name, frozenset()) | links[name]
        if self.is_accurate:
            for name in links:
                self.links[name] = links[name] if name not in waiting else frozenset()
            self._strip()

    def drop(self, name):
        self.links.pop(name, None)
        self._strip()

    def seed(self, seeds):
        self.seeds = set(seeds) if self.is_accurate else self.seeds | seeds
        if self.is_accurate:
            self._strip()

    def _strip(self):
        while lost := {name for name, links in self.links.items() if links} - self.within:
            for name in lost:
                self.links[name] = frozenset()


class Stored:
    """The hop counts that the database computes, by the names of documents."""

    def __init__(self, cursor, limits, *, is_accurate=True):
        self.graph = HopGraph(cursor, next(_jobs), HopRules(tuple(limits.items()), is_accurate))
        self.run_no = 0

    @property
    def counts(self):
        rows = HopCount.objects.filter(job_id=self.graph.job_id)
        return {(NAME_OF[row.hash.hex], row.link_type): row.distance for row in rows}

    @property
    def within(self):
        return {NAME_OF[hash_] for hash_ in self.graph.within(list(NAME_OF))}

    def read(self, links):
        self.graph.read(
            {HASHES[name]: [(HASHES[to], link_type) for to, link_type in named] for name, named in links.items()}
        )

    def drop(self, name):
        self.graph.drop([HASHES[name]])

    def seed(self, seeds):
        self.run_no += 1
        self.graph.add_seeds([HASHES[name] for name in seeds], run_no=self.run_no)
        self.graph.remove_old_seeds(run_no=self.run_no)

    def take_touched(self):
        touched = {NAME_OF[hash_] for hash_ in self.graph.touched}
        self.graph.touched.clear()
        return touched


@pytest.fixture
def cursor(connection):
    with named_rows(connection, binary=True) as opened:
        yield opened


# --- Properties ----------------------------------------------------------------------------------

READ = st.tuples(st.just("read"), st.dictionaries(st.sampled_from(NAMES), LINKS, min_size=1, max_size=3))
SEED = st.tuples(st.just("seed"), SEEDS)
DROP = st.tuples(st.just("drop"), st.sampled_from(NAMES))


@given(
    limits=ONE_LIMIT | TWO_LIMITS,
    first=SEEDS,
    steps=st.lists(READ | READ | READ | SEED | DROP, min_size=1, max_size=15),
)
@with_database
def test_hop_counts_match_the_links_in_any_order_of_changes(cursor, limits, first, steps):
    stored, expected = Stored(cursor, limits), Expected(limits, is_accurate=True)

    for verb, what in [("seed", first), *steps]:
        before = stored.within
        getattr(stored, verb)(what)
        getattr(expected, verb)(what)

        dropped = {what} if verb == "drop" else set()
        assert stored.counts == expected.counts
        assert (before ^ stored.within) - dropped <= stored.take_touched()


@given(limits=ONE_LIMIT | TWO_LIMITS, first=SEEDS, steps=st.lists(READ | READ | SEED, min_size=1, max_size=12))
@with_database
def test_deleted_links_count_as_hops_if_the_job_has_this_option(cursor, limits, first, steps):
    stored = Stored(cursor, limits, is_accurate=False)
    expected = Expected(limits, is_accurate=False)

    for verb, what in [("seed", first), *steps]:
        getattr(stored, verb)(what)
        getattr(expected, verb)(what)

        assert stored.counts == expected.counts


def crawl(stored, site, *, due, choose):
    """Read due documents in the chosen order and groups, until no further document is within the limits."""
    due = set(due)
    while due:
        group = choose(sorted(due))
        due -= group
        before = stored.within
        stored.read({name: site.get(name, frozenset()) for name in group & before})
        due = (due | (stored.within - before)) & stored.within


def reached(site, *, seeds, limits):
    """Return the counts of a crawl, derived from the site alone. Only documents within the limits are read."""
    known = {}
    while True:
        counts = counts_of(known, seeds=seeds, limits=limits)
        read = {name: site.get(name, frozenset()) for name in within(counts, limits)}
        if read == known:
            return counts
        known = read


def chooser(data):
    return lambda names: set(data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)))


@given(limits=ONE_LIMIT | TWO_LIMITS, site=SITES, seeds=SEEDS, data=st.data())
@with_database
def test_a_crawl_in_any_order_ends_with_equal_hop_counts(cursor, limits, site, seeds, data):
    stored = Stored(cursor, limits)
    stored.seed(seeds)

    crawl(stored, site, due=stored.within, choose=chooser(data))

    assert stored.counts == reached(site, seeds=seeds, limits=limits)


@given(limits=ONE_LIMIT, sites=st.lists(SITES, min_size=2, max_size=4), seeds=SEEDS, data=st.data())
@with_database
def test_hop_counts_of_a_changed_site_equal_those_of_its_first_crawl(cursor, limits, sites, seeds, data):
    stored = Stored(cursor, limits)

    for site in sites:
        stored.seed(seeds)
        crawl(stored, site, due=stored.within, choose=chooser(data))

    assert stored.counts == reached(sites[-1], seeds=seeds, limits=limits)


@given(limits=ONE_LIMIT | TWO_LIMITS, site=SITES, changed=SITES, seeds=SEEDS)
@with_database
def test_a_new_accurate_hop_count_forgets_deleted_links(cursor, limits, site, changed, seeds):
    stored = Stored(cursor, limits, is_accurate=False)
    stored.seed(seeds)
    crawl(stored, site, due=stored.within, choose=set)
    crawl(stored, changed, due=stored.within, choose=set)

    stored.graph.rules = HopRules(tuple(limits.items()))
    stored.seed(seeds)
    crawl(stored, changed, due=stored.within, choose=set)

    assert stored.counts.keys() >= reached(changed, seeds=seeds, limits=limits).keys()
    links = {}
    for link in Link.objects.filter(job_id=stored.graph.job_id).exclude(link_type=""):
        links.setdefault(NAME_OF[link.source.hex], set()).add((NAME_OF[link.target.hex], link.link_type))
    assert stored.counts == counts_of(links, seeds=seeds, limits=limits)
    assert all(links[name] == changed[name] for name in links)
