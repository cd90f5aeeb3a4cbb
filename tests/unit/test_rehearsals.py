"""
Proves on small sites that a rehearsal finds the documents that stay, leave and arrive under other rules of their job.
"""

import math
import random

import pytest

from jobs.connectors.repository.kind import SourceSettings
from jobs.connectors.repository.web.kind import WEB
from jobs.queries.rehearsals.comparing import (
    EXAMPLES,
    RENAMED,
    Known,
    Links,
    Rejected,
    Sorted,
    find_arrivals,
    follow_links,
    key_of,
    sort_documents,
)

SEED = "http://a.example/"
LANE, OTHER_LANE = 1, 2


def key(name):
    return name.encode()


def rules_of(**specification):
    return WEB.rules(SourceSettings(specification=specification, seeds=[SEED]))


def known(*urls, lane=LANE):
    return [Known(key(url), url, lane) for url in urls]


def reach(site, *, seeds=("root",), admitted=None, redirects=(), max_depth=None):
    """
    Return the names that are reached in a site, and the names at the greatest depth that the rules allow. A site
    maps each name to its links.
    """

    def links_of(keys):
        for name, targets in site.items():
            if key(name) in keys:
                yield Links([key(one) for one in targets], name in redirects)

    names = {*site, *(one for targets in site.values() for one in targets)}
    possible = {key(one) for one in (names if admitted is None else admitted)}
    found = follow_links({key(one) for one in seeds}, Sorted(), links_of, max_depth=max_depth, among=possible)
    reached = possible - found.left_out
    return {one.decode() for one in reached}, {one.decode() for one in found.at_the_end}


def test_documents_are_sorted_by_the_rule_that_refuses_them():
    documents = [
        *known("http://a.example/x", "http://a.example/private/y"),
        *known("http://b.example/", lane=OTHER_LANE),
    ]

    found = sort_documents(documents, rules_of(exclude=["/private/"]))

    assert found.admitted.keys() == {key("http://a.example/x")}
    assert {why: group.examples for why, group in found.refused.items()} == {
        "the exclude pattern '/private/' matches it": ["http://a.example/private/y"],
        "outside of the scope 'host' of every seed": ["http://b.example/"],
    }
    assert found.documents == 3
    assert found.all_places() == {(LANE, True): 2, (OTHER_LANE, True): 1}
    assert found.lost == {(LANE, True): 1, (OTHER_LANE, True): 1}


def test_a_group_counts_all_documents_and_names_the_first():
    found = sort_documents(known(*(f"http://b.example/{n}" for n in range(EXAMPLES + 5))), rules_of())

    (group,) = found.refused.values()
    assert (group.number, len(group.examples)) == (EXAMPLES + 5, EXAMPLES)


HOSTS = ["a.example", "www.a.example", "deep.www.a.example", "b.example", "a.example:8080"]
PATTERNS = ["x", "^http://a", r"\d$", "/dir/", "(a?){5}b"]


@pytest.mark.parametrize("scope", ["host", "domain", "prefix", "any"])
async def test_a_rehearsal_refuses_addresses_by_the_same_rules_as_a_worker(scope):
    chance, runtime = random.Random(scope), WEB.runtime()
    paths = ["", "x", "dir/", "dir/1", "directory"]
    urls = [f"http://{host}/{path}" for host in HOSTS for path in paths]
    for _ in range(20):
        source = SourceSettings(
            specification={
                "scope": scope,
                "include": chance.sample(PATTERNS, chance.randrange(2)),
                "exclude": chance.sample(PATTERNS, chance.randrange(3)),
            },
            seeds=chance.sample(urls, 2),
            redirects=[(chance.choice(urls), chance.choice(urls))],
        )
        worker, rules = runtime.open(source), WEB.rules(source)

        assert [rules.why_not(url) is None for url in urls] == [worker._scope.admits(url) for url in urls]
    await runtime.close()


def test_a_document_with_a_dropped_parameter_leaves_unless_it_is_a_seed():
    documents = known("http://a.example/x?sid=1", "http://a.example/x?sid=2", "http://a.example/y?id=1&SID=3")

    source = SourceSettings(specification={"drop_parameters": ["sid"]}, seeds=["http://a.example/x?sid=2"])

    found = sort_documents(documents, WEB.rules(source))

    assert found.admitted.keys() == {key("http://a.example/x?sid=2")}
    assert found.refused_keys == [key("http://a.example/x?sid=1"), key("http://a.example/y?id=1&SID=3")]
    assert {why: group.number for why, group in found.refused.items()} == {RENAMED: 2}
    assert {form.identifier for form in found.new_forms.values()} == {"http://a.example/x", "http://a.example/y?id=1"}
    assert set(found.renamed.values()) == {key_of("http://a.example/x"), key_of("http://a.example/y?id=1")}


def test_a_document_stays_only_if_a_path_of_links_leads_to_it():
    site = {"root": ["list", "about"], "list": ["item"], "item": ["detail"], "about": ["item"]}

    assert reach(site)[0] == {"root", "list", "about", "item", "detail"}
    assert reach(site, admitted={"root", "about", "item", "detail"})[0] == {"root", "about", "item", "detail"}
    assert reach(site, admitted={"root", "item", "detail"})[0] == {"root"}


def test_documents_that_link_to_each_other_in_a_circle_do_not_stay():
    assert reach({"root": [], "a": ["b"], "b": ["a"]})[0] == {"root"}


def test_documents_at_the_depth_limit_stay_but_their_links_are_ignored():
    site = {"root": ["near"], "near": ["far"], "far": ["farther"]}

    assert reach(site, max_depth=1) == ({"root", "near"}, {"near"})
    assert reach(site, max_depth=0) == ({"root"}, {"root"})


def test_the_shortest_path_counts_and_a_redirect_adds_no_depth():
    site = {"root": ["long", "moved"], "long": ["longer"], "longer": ["goal"], "moved": ["goal"], "goal": ["beyond"]}

    reached, at_the_end = reach(site, redirects={"moved"}, max_depth=2)

    assert "beyond" in reached
    assert at_the_end == {"longer", "beyond"}


def test_a_rejected_address_arrives_if_the_rules_admit_it_and_its_page_stays():
    sample = [
        Rejected(key(url), url, key(page))
        for url, page in (
            ("http://b.example/new", "stays"),
            ("http://b.example/orphan", "leaves"),
            ("http://b.example/known", "stays"),
            ("http://c.example/private", "stays"),
        )
    ]

    found = find_arrivals(
        sample,
        rules_of(scope="any", exclude=["private"]),
        known={key("http://b.example/known")}.__contains__,
        leads_on={key("stays")}.__contains__,
    )

    assert [one.identifier for one in found] == ["http://b.example/new"]


NAMES = "abcdef"


@pytest.mark.parametrize("number", range(4))
def test_the_reached_documents_of_any_site_agree_with_a_second_method(number):
    chance = random.Random(number)
    for _ in range(100):
        site = {name: chance.choices(NAMES, k=chance.randrange(4)) for name in NAMES if chance.random() < 0.8}
        redirects = {name for name in NAMES if chance.random() < 0.3}
        admitted = {name for name in NAMES if chance.random() < 0.8}
        max_depth = chance.choice([None, 0, 1, 2, 3])

        found, _at_the_end = reach(site, seeds="a", admitted=admitted, redirects=redirects, max_depth=max_depth)

        assert found == relaxed(site, redirects, admitted, max_depth)


def relaxed(site, redirects, admitted, max_depth):
    """Return the reached names, found by another method: distances from the seed `a` are lowered until none changes."""
    distances = {"a": 0} if "a" in admitted else {}
    for _ in NAMES * 2:
        for name, targets in site.items():
            for target in targets:
                distance = distances.get(name, math.inf) + (0 if name in redirects else 1)
                if target in admitted and distance <= (len(NAMES) if max_depth is None else max_depth):
                    distances[target] = min(distance, distances.get(target, math.inf))
    return set(distances)
