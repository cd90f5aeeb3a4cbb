"""Proves that the radar finds twelve kinds of traps early, and that it holds back hardly any good page."""

import random
from collections import deque
from dataclasses import dataclass
from functools import cache

import pytest
import re2

from jobs.traps.novelty import Lines
from jobs.traps.quarantine import Quarantine
from jobs.traps.radar import BUDGET, LEAST_NEW, HostRadar, Radar, most_new
from jobs.traps.templates import grouped
from tests.support import trap_sites
from tests.support.trap_sites import Page, Site


@dataclass
class Crawled:
    """The numbers of good and of wasted pages that a crawl read and held back."""

    read_good: int = 0
    held_good: int = 0
    read_wasted: int = 0
    held_wasted: int = 0


@cache
def crawl_trap(trap: str) -> Crawled:
    return crawl(trap_sites.site_with(trap))


@cache
def crawl_good_site(name: str) -> Crawled:
    radar, counts = HostRadar(), Crawled()
    for page in trap_sites.good_site(name):
        read(radar, page, counts)
    return counts


def crawl(site: Site) -> Crawled:
    """Follow the links of a site like a crawl that holds back the addresses of suspects."""
    radar, counts = HostRadar(), Crawled()
    queue, known = deque([site.home]), {site.home}
    while queue:
        page = site.pages[queue.popleft()]
        read(radar, page, counts)
        if radar.suspect_of(grouped(page.url)) is None:
            new = [link for link in page.links if link not in known]
            known.update(new)
            queue.extend(new)
    counts.held_good = trap_sites.GOOD + trap_sites.GOOD // 20 + 1 - counts.read_good
    counts.held_wasted = trap_sites.WASTED - counts.read_wasted
    return counts


def read(radar: HostRadar, page: Page, counts: Crawled) -> None:
    address = grouped(page.url)
    is_held = radar.suspect_of(address) is not None
    if not is_held:
        radar.add(page.url, address, page.text, read=1)
    name = f"{'held' if is_held else 'read'}_{'good' if page.is_good else 'wasted'}"
    setattr(counts, name, getattr(counts, name) + 1)


@pytest.mark.parametrize("trap", trap_sites.TRAPS)
def test_95_percent_of_the_wasted_fetches_of_each_trap_are_avoided(trap):
    counts = crawl_trap(trap)

    assert counts.held_wasted >= 0.95 * trap_sites.WASTED


def test_fewer_than_half_a_percent_of_good_pages_are_held_back():
    every = [*map(crawl_trap, trap_sites.TRAPS), *map(crawl_good_site, trap_sites.GOOD_SITES)]

    held, good = sum(one.held_good for one in every), sum(one.held_good + one.read_good for one in every)

    assert held < 0.005 * good


@pytest.mark.parametrize("trap", trap_sites.TRAPS)
def test_the_rule_of_a_trap_matches_all_its_addresses_and_no_good_page(trap):
    site = trap_sites.site_with(trap)
    wasted = [page.url for page in site.pages.values() if not page.is_good][:40]
    articles = [page.url for page in site.pages.values() if page.is_good and "/articles/" in page.url][:40]

    for url in wasted:
        for group in grouped(url).groups:
            assert re2.search(group.rule, url), (group, url)
        own = grouped(url).groups[0]
        assert not any(re2.search(own.rule, article) for article in articles)


def test_a_group_becomes_a_suspect_only_if_chance_does_not_explain_it():
    assert most_new(0, BUDGET) < LEAST_NEW < most_new(BUDGET // 4, BUDGET)
    assert most_new(0, 5) > LEAST_NEW


def test_a_page_that_differs_only_in_dates_numbers_and_its_address_is_not_new():
    lines = Lines()
    text = "Events of January {}\nMonday {}\nYou are at /calendar/2026/{}"

    found = [
        lines.is_new(grouped(f"http://a.example/calendar/2026/{n}"), text.format(2026 + n, n, n)) for n in range(1, 6)
    ]

    # The first pages with a line are too few for a decision.
    assert found == [True, True, True, False, False]


def test_a_page_counts_as_new_after_its_print_version_was_read():
    lines = Lines()
    assert lines.is_new(grouped("http://a.example/x?print=1"), "The same words")

    assert lines.is_new(grouped("http://a.example/x"), "The same words")
    assert not lines.is_new(grouped("http://a.example/x?print=2"), "The same words")


def test_a_page_copied_to_a_few_plain_addresses_counts_as_new_there():
    lines, text = Lines(), "{} functions\npub fn add(a: i8) -> i8\nAdds all lanes of both vectors."
    names = ["arm", "mips", "wasm", "sparc"]
    addresses = [f"http://a.example/lib/core/arch/{name}/fn.add" for name in names]

    found = [lines.is_new(grouped(url), text.format("Some")) for url in addresses]

    assert found == [True, True, True, False]


@pytest.mark.parametrize("query", ["?copy={}", "//{}", "/Copy{}"])
def test_a_page_copied_to_other_addresses_does_not_count_as_new(query):
    lines = Lines()
    lines.is_new(grouped("http://a.example/add"), "pub fn add\nAdds all lanes.")

    found = [
        lines.is_new(grouped(f"http://a.example/add{query.format(n)}"), "pub fn add\nAdds all lanes.") for n in "ab"
    ]

    assert found == [False, False]


def test_the_radar_forgets_the_host_that_was_not_read_for_longest():
    radar = Radar()
    first = radar.host(1, 1, "h0.example")
    for number in range(64):
        radar.host(1, 1, f"h{number}.example")
    assert radar.host(1, 1, "h0.example") is first

    radar.host(1, 1, "new.example")
    radar.host(1, 1, "newer.example")

    assert radar.host(1, 1, "h0.example") is first
    assert radar.host(1, 2, "h0.example") is not first


def test_groups_of_a_host_are_bounded():
    radar = HostRadar()
    for number in range(1_500):
        url = f"http://a.example/x{'y' * (number % 15)}/z?{'k' * (number // 15 + 1)}=1"
        radar.add(url, grouped(url), f"word{'w' * number}", read=1)

    assert len(radar._counts) <= 1_001


def test_a_quarantine_holds_a_group_without_its_proven_templates():
    quarantine = Quarantine([("a.example", "**?sid", ["/news?id&sid"]), ("a.example", "/calendar/{n}", [])])

    assert quarantine.group_of("http://a.example/shop?sid=1", host="a.example") == "**?sid"
    assert quarantine.group_of("http://a.example/calendar/7", host="a.example") == "/calendar/{n}"
    assert quarantine.group_of("http://a.example/news?id=1&sid=2", host="a.example") is None
    assert quarantine.group_of("http://a.example/shop?sid=1", host="b.example") is None


@pytest.mark.parametrize(
    ("text", "is_new"),
    [
        ("Function {name} in core\npub fn {name}(a: i8)\nAdds all lanes.", True),
        ("Redirecting to ../../core/fn.{name}.html", False),
        ("Sorry, fn.{name} does not exist.", False),
    ],
)
def test_a_page_that_differs_only_in_the_end_of_its_address_is_not_new(text, is_new):
    lines = Lines()

    found = [
        lines.is_new(grouped(f"http://a.example/fn.{name}.html"), text.format(name=name))
        for name in ("add_all", "sum_all")
    ]

    assert found == [True, is_new]


def test_a_poor_part_of_a_good_wide_group_is_a_suspect_by_itself():
    radar = HostRadar()
    for number in range(200):
        url = (
            f"http://a.example/Part{'abcdefghij'[number % 10]}/story-of-{'x' * (number // 10 + 1)}-again-{number % 10}"
        )
        radar.add(url, grouped(url), trap_sites.prose(random.Random(url), 1), read=1)
    for number in range(150):
        url = f"http://a.example/Copies/{number}"
        radar.add(url, grouped(url), "The same", read=1)

    assert radar.suspect_of(grouped("http://a.example/Copies/7")).group.template == "/Copies/{n}"
    assert radar.suspect_of(grouped("http://a.example/Another/Page")) is None


def test_a_run_of_poor_pages_in_a_good_group_is_no_trap():
    radar = HostRadar()
    for number in range(250):
        url = f"http://a.example/x/{number}"
        radar.add(url, grouped(url), trap_sites.prose(random.Random(url), 1) if number < 180 else "Nothing", read=1)
    assert radar.suspect_of(grouped("http://a.example/x/999")) is None

    for number in range(250, 350):
        url = f"http://a.example/x/{number}"
        radar.add(url, grouped(url), "Nothing", read=1)

    assert radar.suspect_of(grouped("http://a.example/x/999")) is not None
