"""The table of link spellings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.connectors.repository.base import hash_of
from jobs.connectors.repository.web.links import LinkTable
from jobs.connectors.repository.web.urls import BadUrl, canonical

BASES = ["http://a.example/", "http://a.example/b/c.html?q=/x/", "https://a.example/b/", "http://b.example:8080/b/"]
HREFS = ["/", "x", "./x", "/x", "//c.example/x", "http://c.example/x", "https:x", "?x", "#x", "", " /x", "\n?y", "../x",
         "HTTP://C.example/X", "javascript:x", "mailto:a@b", "http://c.example:0/", "x#y", "\\x", "/x?y#z", "/x #y", "?x #", " #y", "http://c.example#/x"]  # fmt: skip


def make_table(*, admits=lambda url: True, capacity=1000):
    return LinkTable(admits=admits, capacity=capacity)


def urls(table, hrefs, base, depth=1):
    return sorted(reference.identifier for reference in table.references(hrefs, base=base, depth=depth).values())


def test_a_page_names_each_document_once():
    found = make_table().references(["/x", "/x#a", "http://a.example/x", "x"], base="http://a.example/", depth=3)

    assert [(r.identifier, r.depth, r.redirects, r.bin) for r in found.values()] == [
        ("http://a.example/x", 3, 0, "a.example")
    ]
    assert list(found) == [hash_of("http://a.example/x")]


def test_bad_links_and_those_out_of_scope_are_left_out():
    table = make_table(admits=lambda url: "a.example" in url)

    assert urls(table, ["/x", "http://b.example/", "javascript:x", "http://a.example:0/"], "http://a.example/") == [
        "http://a.example/x"
    ]


def test_the_scope_is_asked_once_about_a_spelling():
    asked = []
    table = make_table(admits=lambda url: asked.append(url) or True)

    for page in ("http://a.example/1", "http://a.example/2"):
        urls(table, ["/x", "y", "http://c.example/"], page)

    assert len(asked) == 3


def test_a_known_link_gets_the_depth_of_the_page_that_names_it():
    table = make_table()

    for depth in (5, 2, 7):
        assert [r.depth for r in table.references(["/x"], base="http://a.example/", depth=depth).values()] == [depth]


@given(pages=st.lists(st.tuples(st.sampled_from(BASES), st.lists(st.sampled_from(HREFS), max_size=6)), max_size=12))
@pytest.mark.parametrize("capacity", [1, 5, 1000])
def test_what_the_table_remembers_never_changes_what_a_link_means(pages, capacity):
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


def test_the_table_is_bounded():
    table = make_table(capacity=100)

    for page in range(200):
        table.references([f"/{page}/{n}" for n in range(20)], base="http://a.example/", depth=1)

    kept = sum(len(t) for generation in (table._young, table._old) for t in generation.values())
    assert kept <= 2 * (100 + 20)


def test_places_of_one_document_are_one_spelling():
    table = make_table()

    urls(table, ["/x", "/x#a", "/x#b", "/x#"], "http://a.example/")

    assert table._size == 1


def test_long_spellings_are_read_but_not_kept():
    table = make_table()

    assert urls(table, ["/" + "x" * 600, "data:text/html," + "x" * 100_000], "http://a.example/") == [
        "http://a.example/" + "x" * 600
    ]
    assert not any(table._young.values())
