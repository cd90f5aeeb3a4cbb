"""Proves that the bounded table of link spellings never changes the meaning of a link."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.connectors.repository.base import hash_of
from jobs.connectors.repository.web.links import LinkTable
from jobs.connectors.repository.web.urls import BadUrl, canonical
from tests.support.tables import each_row

BASES = ["http://a.example/", "http://a.example/b/c.html?q=/x/", "https://a.example/b/", "http://b.example:8080/b/"]
HREFS = ["/", "x", "./x", "/x", "//c.example/x", "http://c.example/x", "https:x", "?x", "#x", "", " /x", "\n?y", "../x",
         "HTTP://C.example/X", "javascript:x", "mailto:a@b", "http://c.example:0/", "x#y", "\\x", "/\\c.example/x", "/\t/c.example/x", "http://a.example//c.example/x", "http://a.example/\t/c.example/x",
         "/ ", "/x ", "/./x", "/%78", "http://a.example/%78", "http://a.example:80/x", "b/http://c.example/x", "/x?y#z", "/x #y", "?x #", " #y", "http://c.example#/x"]  # fmt: skip


def make_table(*, admits=lambda url: True, capacity=1000):
    return LinkTable(admits=admits, capacity=capacity)


def urls(table, hrefs, base):
    return sorted(reference.identifier for reference in table.references(hrefs, base=base).values())


def test_links_of_a_page_contain_each_document_once():
    found = make_table().references(["/x", "/x#a", "http://a.example/x", "x"], base="http://a.example/")

    assert [(r.identifier, r.bin, r.is_redirect) for r in found.values()] == [
        ("http://a.example/x", "a.example", False)
    ]
    assert list(found) == [hash_of("http://a.example/x")]


def test_invalid_links_and_links_out_of_scope_are_left_out():
    table = make_table(admits=lambda url: "a.example" in url)

    assert urls(table, ["/x", "http://b.example/", "javascript:x", "http://a.example:0/"], "http://a.example/") == [
        "http://a.example/x"
    ]


def test_the_scope_is_checked_once_for_each_spelling_of_a_link():
    checked = []
    table = make_table(admits=lambda url: checked.append(url) or True)

    for page in ("http://a.example/1", "http://a.example/2"):
        urls(table, ["/x", "y", "http://c.example/"], page)

    assert len(checked) == 3


@given(pages=st.lists(st.tuples(st.sampled_from(BASES), st.lists(st.sampled_from(HREFS), max_size=6)), max_size=12))
@pytest.mark.parametrize("capacity", [1, 5, 1000])
def test_the_cache_never_changes_the_target_of_a_link(pages, capacity):
    table = make_table(capacity=capacity)

    for base, hrefs in pages:
        expected = set()
        for href in hrefs:
            if href.strip() and not href.strip().startswith("#"):
                try:
                    expected.add(canonical(href, base))
                except BadUrl:
                    continue
        assert urls(table, hrefs, base) == sorted(expected)


@each_row("href", ["//c.example/x", "/\\c.example/x", "/\t/c.example/x"])
def test_two_slashes_start_a_host_even_if_a_known_path_contains_them(href):
    table = make_table()
    urls(table, ["http://a.example//c.example/x", "http://a.example/\t/c.example/x"], "http://a.example/")

    assert urls(table, [href], "http://a.example/") == ["http://c.example/x"]


def test_an_address_is_recognized_on_any_page_that_links_to_it(monkeypatch):
    table = make_table()
    urls(table, ["http://a.example/x"], "http://c.example/")
    monkeypatch.setattr("jobs.connectors.repository.web.links.canonical", None)

    assert urls(table, ["/x", "/x#a", "http://a.example/x"], "http://a.example/b/c") == ["http://a.example/x"]


def test_the_table_of_links_is_bounded():
    table = make_table(capacity=100)

    for page in range(200):
        table.references(
            [f"/{page}/{n}" for n in range(10)] + [f"{page}-{n}" for n in range(5)], base="http://a.example/"
        )

    kept = sum(len(t) for g in (table._young, table._old) for t in (g.addresses, *g.spellings.values()))
    assert kept <= 2 * (100 + 20)


def test_addresses_that_differ_in_their_fragment_are_one_spelling():
    table = make_table()

    urls(table, ["/x", "/x#a", "/x#b", "/x#", "http://a.example/x"], "http://a.example/")

    assert table._young.size == 1


def test_a_known_spelling_takes_no_additional_memory():
    table = make_table()
    hrefs = ["x", "../y", "/a/../z", "http://a.example:80/", "javascript:x"]

    urls(table, hrefs, "http://a.example/")
    learned = table._young.size
    urls(table, hrefs, "http://a.example/")

    assert table._young.size == learned


def test_long_spellings_are_read_but_not_kept():
    table = make_table()

    assert urls(table, ["/" + "x" * 600, "data:text/html," + "x" * 100_000], "http://a.example/") == [
        "http://a.example/" + "x" * 600
    ]
    assert table._young.size == 0


@each_row("spelling", ["http://www.a.example/x", "http://www.a.example", "HTTP://www.a.example/%7ex"])
def test_a_link_that_is_refused_temporarily_is_checked_again(spelling):
    admitted = set()
    table = LinkTable(admits=lambda url: bool(admitted), is_near=lambda url: "a.example" in url)
    assert urls(table, [spelling], "http://a.example/") == []

    admitted.add("the host")

    assert urls(table, [spelling], "http://a.example/") != []


def test_each_refused_address_is_returned_once():
    table = LinkTable(admits=lambda url: "a.example" in url, is_near=lambda url: "near" in url, keeps_rejected=True)
    page = ["/x", "http://b.example/", "http://near.example/", "mailto:x"]

    table.references(page, base="http://a.example/")
    first = table.take_rejected()
    table.references([*page, "http://c.example/"], base="http://a.example/2")

    assert first == ["http://b.example/", "http://near.example/"]
    assert table.take_rejected() == ["http://c.example/"]


def test_at_most_a_fixed_number_of_a_pages_refused_addresses_is_returned():
    table = LinkTable(admits=lambda url: False, keeps_rejected=True)

    table.references([f"/{number}" for number in range(3_000)], base="http://a.example/")

    assert len(table.take_rejected()) == 1_000


def test_refused_addresses_are_kept_only_if_a_consumer_reads_them():
    table = make_table(admits=lambda url: False)

    table.references(["/x"], base="http://a.example/")

    assert table.take_rejected() == []


def test_links_lose_dropped_parameters():
    table = LinkTable(admits=lambda _url: True, dropped=frozenset({"sid", "order"}))
    hrefs = ["/x?sid=1", "x?SID=2&page=3", "http://a.example/x?page=3&order=up", "/x?sid=1", "/x?side=1"]

    for _ in range(2):
        assert urls(table, hrefs, "http://a.example/") == [
            "http://a.example/x", "http://a.example/x?page=3", "http://a.example/x?side=1",
        ]  # fmt: skip
