"""Proves that each kind of stage passes, changes and refuses the right documents."""

import datetime as dt

import pytest

from jobs.connectors.transformation import registry
from jobs.connectors.transformation.base import Candidate, Item, Refused
from tests.support.tables import each_row

URL = "http://a.example/docs/page.html"
PAGE = b"""<html><head><title>Shop</title></head><body><nav>Menu</nav><h1 id=t>A <b>lamp</b></h1>
<div class=offer><p class=price>12 EUR</p><p class=price>10 EUR</p></div><img class=main src=/lamp.jpg>
<table><tr><td>ISBN</td><td>978-3</td></tr></table></body></html>"""


def item(**facts) -> Item:
    usual = {"url": URL, "content_type": "text/html", "text": "some words", "title": "A title"}
    return Item(**{**usual, **facts})


def transform(kind, settings, given):
    found = registry.find(kind).check(settings)
    assert found == {}
    result = registry.open_stage(kind, settings).transform(given)
    return result if isinstance(result, Refused) else result[0]


@each_row(
    ("settings", "facts", "code"),
    [
        ({}, {}, None),
        ({"content_types": ["application/*"]}, {}, "EXCLUDED_TYPE"),
        ({"content_types": ["TEXT/html"]}, {}, None),
        ({"exclude_types": ["text/*"]}, {}, "EXCLUDED_TYPE"),
        ({"max_bytes": 9}, {}, "EXCLUDED_LENGTH"),
        ({"max_bytes": 10}, {}, None),
        ({"max_bytes": 10}, {"body": b"x" * 11}, "EXCLUDED_LENGTH"),
        ({"min_bytes": 11}, {}, "EXCLUDED_LENGTH"),
        ({"include": ["/docs/"]}, {}, None),
        ({"include": ["/blog/"]}, {}, "EXCLUDED_URL"),
        ({"exclude": [r"\.html$"]}, {}, "EXCLUDED_URL"),
        ({"earliest": "2026-01-02"}, {}, None),
        ({"earliest": "2026-01-02"}, {"originated_at": dt.datetime(2026, 1, 1, 23, tzinfo=dt.UTC)}, "EXCLUDED_DATE"),
        ({"earliest": "2026-01-02"}, {"metadata": {"published": ("nonsense", "2026-01-01")}}, "EXCLUDED_DATE"),
        ({"latest": "2026-01-02"}, {"metadata": {"published": ("2026-01-02T23:59:59+00:00",)}}, None),
        ({"latest": "2026-01-02"}, {"metadata": {"published": ("2026-01-03",)}}, "EXCLUDED_DATE"),
        ({"exclude_text": ["(?i)TITLE"]}, {}, "EXCLUDED_TEXT"),
        ({"exclude_text": ["words$"]}, {}, "EXCLUDED_TEXT"),
    ],
)
def test_documents_are_allowed_by_type_length_address_date_and_text(settings, facts, code):
    result = transform("allowed", settings, item(**facts))
    assert (result.code if isinstance(result, Refused) else None) == code


def test_a_document_is_refused_before_its_body_is_read():
    stage = registry.open_stage("allowed", {"max_bytes": 10, "exclude_types": ["video/*"]})
    assert stage.why_not(Candidate(URL, "text/html", 11)).code == "EXCLUDED_LENGTH"
    assert stage.why_not(Candidate(URL, "video/mp4")).reason == "The type is video/mp4."
    assert stage.why_not(Candidate(URL, "text/html")) is None


@each_row(
    ("settings", "metadata"),
    [
        ({}, {"author": ("Ada", "Bob"), "og:title": ("Lamp",)}),
        ({"set": ["site = intranet"], "keep": ["site"]}, {"site": ("intranet",)}),
        ({"rename": ["og:title = Headline"], "remove": ["author"]}, {"headline": ("Lamp",)}),
        ({"set": ["by = by ${author}!"], "keep": ["by"]}, {"by": ("by Ada!", "by Bob!")}),
        ({"set": ["x = ${none}"], "keep": ["x"]}, {}),
        ({"set": [r"part = ${url|/(\w+)/|1}"], "keep": ["part"]}, {"part": ("docs",)}),
        ({"set": ["author = ${title}"], "keep": ["author"]}, {"author": ("A title",)}),
        ({"set": ["author = ${author} 2"], "rename": ["author = old"]},
         {"author": ("Ada 2", "Bob 2"), "old": ("Ada", "Bob"), "og:title": ("Lamp",)}),
    ],
)  # fmt: skip
def test_metadata_are_renamed_set_removed_and_kept(settings, metadata):
    given = item(metadata={"author": ("Ada", "Bob"), "og:title": ("Lamp",)})
    assert transform("metadata", settings, given).metadata == metadata


def test_the_adjuster_sets_the_title_and_language_of_a_document():
    given = item(metadata={"og:title": ("Lamp",), "lang": ("de",)})
    changed = transform("metadata", {"set": ["title = ${og:title}"], "rename": ["lang = language"]}, given)
    assert (changed.title, changed.language, changed.metadata) == ("Lamp", "de", {"og:title": ("Lamp",)})


def test_html_gives_fields_by_css_and_xpath():
    fields = [
        "Price = .offer > .price",
        "image = img.main @src",
        'isbn = xpath: //td[text()="ISBN"]/following-sibling::td',
    ]
    fields += ["count = xpath: count(//p)", "none = .absent", "title = h1"]
    changed = transform("html", {"fields": fields}, item(body=PAGE, metadata={"price": ("free",), "a": ("b",)}))
    assert changed.metadata == {
        "a": ("b",),
        "price": ("12 EUR", "10 EUR"),
        "image": ("/lamp.jpg",),
        "isbn": ("978-3",),
        "count": ("2.0",),
    }
    assert (changed.title, changed.text) == ("A lamp", "some words")


def test_html_takes_its_text_from_the_chosen_elements():
    changed = transform("html", {"text": ["h1", ".offer"], "remove": [".price:nth-child(2)"]}, item(body=PAGE))
    assert changed.text == "A lamp\n12 EUR"


def test_html_passes_other_documents_as_they_are():
    for given in (item(), item(body=b"{}", content_type="application/json")):
        assert transform("html", {"text": ["h1"]}, given) is given


@each_row(
    ("kind", "settings", "field"),
    [
        ("allowed", {"content_types": ["html"]}, "content_types"),
        ("allowed", {"include": ["("]}, "include"),
        ("allowed", {"earliest": "yesterday"}, "earliest"),
        ("allowed", {"min_bytes": 2, "max_bytes": 1}, "max_bytes"),
        ("allowed", {"max_bytes": -1}, "max_bytes"),
        ("allowed", {"size": 1}, "size"),
        ("metadata", {"set": ["site"]}, "set"),
        ("metadata", {"set": ["a = ${b|(|1}"]}, "set"),
        ("metadata", {"set": ["a = ${b|x|1}"]}, "set"),
        ("metadata", {"set": ["a = ${b"]}, "set"),
        ("metadata", {"set": ["url = x"]}, "set"),
        ("metadata", {"rename": ["url = x"]}, "rename"),
        ("metadata", {"remove": ["url"]}, "remove"),
        ("html", {"text": ["p["]}, "text"),
        ("html", {"fields": ["a = xpath: //p["]}, "fields"),
        ("html", {"fields": ["price"]}, "fields"),
        ("null", {"a": 1}, "a"),
        ("null", [], ""),
    ],
)
def test_an_invalid_setting_of_a_stage_is_refused_at_its_field(kind, settings, field):
    assert list(registry.find(kind).check(settings)) == [field]


def test_a_stage_describes_all_of_its_settings():
    kinds = {"allowed": {"max_bytes": 1}, "metadata": {"set": ["a = b"]}, "html": {"text": ["p"]}}
    for kind, settings in kinds.items():
        assert registry.open_stage(kind, {}).description != registry.open_stage(kind, settings).description


def test_a_kind_that_is_not_installed_is_named():
    with pytest.raises(registry.UnknownKind, match=r"'magic'\. Choose one of: allowed"):
        registry.open_stage("magic", {})
