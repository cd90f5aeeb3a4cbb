"""Proves that feeds are read in each format and encoding, and that other content is refused."""

import datetime as dt
import gzip
import time

import pytest

from jobs.connectors.repository.feed.reading import Feed, NotRead, read_feed
from tests.support.tables import each_row

URL = "http://a.example/news/feed.xml"

RSS = """<?xml version="1.0"?><rss version="2.0"><channel><title>News</title><link>http://a.example/</link>{channel}
<item><title>One</title><link>http://a.example/1</link></item>
<item><title>Two</title><guid isPermaLink="true">http://a.example/2</guid></item>
<item><title>No address</title><guid isPermaLink="false">2</guid></item></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/blog/"><title>Blog</title>
<link href="http://a.example/blog"/><entry><title>Ä</title><link rel="alternate" href="1"/><link rel="edit" href="e"/></entry></feed>"""
RDF = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/"
xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"><channel rdf:about="http://a.example/"><title>RDF</title>
<sy:updatePeriod>daily</sy:updatePeriod><sy:updateFrequency>4</sy:updateFrequency></channel>
<item rdf:about="http://a.example/1"><title>One</title><link>http://a.example/1</link></item></rdf:RDF>"""


def read(text, *, encoding="utf-8", content_type="application/xml"):
    body = text if isinstance(text, bytes) else text.encode(encoding)
    return read_feed(body, url=URL, content_type=content_type)


def test_the_entries_of_rss_are_named_by_link_or_permanent_guid():
    assert read(RSS.format(channel="")) == Feed({"http://a.example/1": None, "http://a.example/2": None}, None)


def test_entries_of_atom_are_named_by_their_alternate_links():
    assert list(read(ATOM).links) in (["1"], ["http://a.example/blog/1"])


def test_rdf_is_read_with_its_interval_of_changes():
    assert read(RDF) == Feed({"http://a.example/1": None}, 6 * 3600.0)


@each_row(
    ("dates", "date"),
    [
        ("<pubDate>Tue, 01 Jan 2030 12:00:00 +0100</pubDate>", dt.datetime(2030, 1, 1, 11, tzinfo=dt.UTC)),
        ("<updated>2030-01-02T00:00:00Z</updated>", dt.datetime(2030, 1, 2, tzinfo=dt.UTC)),
        (
            "<pubDate>Tue, 01 Jan 2030 12:00:00 GMT</pubDate><updated>2030-01-02T00:00:00Z</updated>",
            dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC),
        ),
        ("<pubDate>yesterday</pubDate>", None),
        ("", None),
    ],
)
def test_an_entry_has_the_date_of_its_publication_or_else_of_its_update(dates, date):
    feed = f'<rss version="2.0"><channel><item><link>http://a.example/1</link>{dates}</item></channel></rss>'

    assert read(feed).links == {"http://a.example/1": date}


def test_an_entry_listed_twice_has_the_later_date():
    items = "".join(
        f"<item><link>http://a.example/1</link><pubDate>{date}</pubDate></item>"
        for date in ("Wed, 02 Jan 2030 00:00:00 GMT", "Tue, 01 Jan 2030 00:00:00 GMT", "")
    )

    read_again = read(f'<rss version="2.0"><channel>{items}</channel></rss>')

    assert read_again.links == {"http://a.example/1": dt.datetime(2030, 1, 2, tzinfo=dt.UTC)}


@each_row("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "iso-8859-1"])
def test_every_encoding_is_read(encoding):
    declared = "utf-16" if encoding.startswith("utf-16-") else encoding.removesuffix("-sig")
    text = (
        f'<?xml version="1.0" encoding="{declared}"?>'
        + RSS.format(channel="<description>é</description>").partition("?>")[2]
    )
    mark = {"utf-16-le": "\ufeff", "utf-16-be": "\ufeff"}.get(encoding, "")

    assert read(mark + text, encoding=encoding).links.keys() == {"http://a.example/1", "http://a.example/2"}


@each_row(
    ("channel", "interval"),
    [
        ("<ttl>30</ttl>", 1800.0),
        ("<ttl>0</ttl>", None),
        ("<ttl>-5</ttl>", None),
        ("<ttl>soon</ttl>", None),
        ("<ttl>99999999999999999999</ttl>", 30 * 24 * 3600.0),
    ],
)  # fmt: skip
def test_a_ttl_is_applied_within_bounds(channel, interval):
    assert read(RSS.format(channel=channel)).interval == interval


@each_row("missing", [1, 9, 30, 60, 120])
def test_entries_of_a_broken_off_feed_are_unknown(missing):
    with pytest.raises(NotRead, match="BROKEN_FEED"):
        read(RSS.format(channel="")[:-missing])


def test_a_complete_feed_is_read_although_it_is_not_well_formed():
    assert "http://a.example/1" in read(RSS.format(channel="<title>Q&A&nbsp;</title>")).links


@each_row(
    ("body", "code"),
    [
        (b"", "NOT_A_FEED"),
        (b"\x89PNG\r\n\x1a\n", "NOT_A_FEED"),
        (b"<html><title>Not found</title>", "NOT_A_FEED"),
        (b'{"version": "https://jsonfeed.org/version/1"}', "NOT_A_FEED"),
        (b"/etc/passwd", "NOT_A_FEED"),
        (b"http://127.0.0.1:9/feed", "NOT_A_FEED"),
        (gzip.compress(b"<rss/>", mtime=0), "NOT_A_FEED"),
        (b'<rss version="2.0"><channel><title>a', "BROKEN_FEED"),
        (b"<rss>" + b"x" * (5 * 1024 * 1024), "TOO_LARGE"),
        (b"<rss>" + b"<a>" * 200_001, "TOO_LARGE"),
    ],
)
def test_an_invalid_feed_has_its_code(body, code):
    with pytest.raises(NotRead) as unread:
        read(body)

    assert unread.value.code == code


def test_a_whole_feed_without_entries_is_a_feed():
    assert read('<rss version="2.0"><channel><title>Empty</title></channel></rss>') == Feed({}, None)


def test_recursive_entities_do_no_harm_and_no_local_files_are_read():
    grows = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f"""<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY a0 "aaaaaaaaaa">{grows}
    <!ENTITY file SYSTEM "file:///etc/passwd">]><rss version="2.0"><channel><title>&a11;</title>
    <item><title>&file;</title><link>http://a.example/&file;</link></item></channel></rss>"""
    began = time.process_time()

    links = read(bomb).links

    assert time.process_time() - began < 5
    assert all("root" not in link for link in links)


def test_an_entry_has_its_authors_and_categories():
    entry = "<item><link>http://a.example/3</link><author>ada@a.example</author><category>one</category><category>two</category></item>"
    read_ = read(RSS.format(channel=entry))
    assert read_.metadata == {"http://a.example/3": {"author": ("ada@a.example",), "categories": ("one", "two")}}
