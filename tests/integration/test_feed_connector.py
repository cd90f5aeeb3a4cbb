"""
Proves that a feed names its entries, that links of entries are not followed, and that the answer of a feed decides its
outcome.
"""

import datetime as dt

import pytest

from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Document, Ending, hash_of
from jobs.connectors.repository.feed.connector import FeedConnector
from jobs.connectors.repository.feed.kind import FEED, entries_wanted
from jobs.connectors.repository.feed.reading import read_feed
from jobs.connectors.repository.kind import SourceSettings
from jobs.connectors.repository.web.fetch import Fetcher
from jobs.connectors.repository.web.robots import RobotsTable
from jobs.extraction.pool import ChildrenBroken
from tests.support.free_pace import FreePace
from tests.support.hostile import HostileSite, answer, redirect
from tests.support.tables import each_row

PAGE = b"<title>A page</title><p>Words <a href=/c>c</a>"


class ReadsHere:
    """Reads feeds in this process: a child takes a second to start."""

    async def read(self, body, *, url, content_type):
        return read_feed(body, url=url, content_type=content_type)


@pytest.fixture
async def fetcher():
    async with Fetcher(allow_private_networks=True) as fetcher:
        yield fetcher


def rss(*links, channel="", headers=()):
    items = "".join(f"<item><title>x</title><link>{link}</link></item>" for link in links)
    return answer(
        f'<rss version="2.0"><channel>{channel}{items}</channel></rss>'.encode(),
        content_type="text/xml",
        headers=headers,
    )


async def process(
    fetcher,
    site,
    path,
    *,
    depth=0,
    failures=2,
    validators="",
    carried=None,
    configuration="1",
    feeds=None,
    **specification,
):
    url = site.url(path)
    document = Document(
        hash=hash_of(url),
        identifier=url,
        depth=depth,
        redirects=0,
        version="",
        validators=validators,
        failures=failures,
        failing_for=0.0,
        carried=carried,
    )
    source = SourceSettings({"allow_private_networks": True}, specification, seeds=[site.url("/feed")])
    connector = FeedConnector(entries_wanted(source), feeds=feeds or ReadsHere(), fetcher=fetcher, robots=RobotsTable())
    activity = Activity(document, configuration)
    await connector.process(document, activity, FreePace())
    return activity.outcome


async def test_a_feed_of_any_format_names_its_entries_and_its_next_refresh(fetcher):
    route = rss("/a", "http://b.example/b", "ftp://c.example/", "/a#top", "/feed", channel="<ttl>10</ttl>")
    async with HostileSite.serve({"/feed": route}) as site:
        outcome = await process(fetcher, site, "/feed")

        assert (outcome.ending, outcome.code) == (Ending.EXCLUDED, "FEED")
        assert [(named.identifier, named.link_type) for named in outcome.references] == [
            (site.url("/a"), "link"),
            ("http://b.example/b", "link"),
        ]
    assert outcome.schedule_bounds.recrawl_least == outcome.schedule_bounds.recrawl_most == 600.0


async def test_patterns_of_a_job_select_entries_of_a_feed(fetcher):
    async with HostileSite.serve({"/feed": rss("/a", "/b", "/ab")}) as site:
        outcome = await process(fetcher, site, "/feed", include=["a$"], exclude=["/ab"])

        assert [named.identifier for named in outcome.references] == [site.url("/a")]


async def test_an_entry_is_a_page_whose_links_are_not_followed(fetcher):
    async with HostileSite.serve({"/a": answer(PAGE)}) as site:
        outcome = await process(fetcher, site, "/a", depth=1)

    assert (outcome.ending, outcome.content.text, outcome.references) == (Ending.INDEXED, "Words c", [])


async def test_a_feed_at_a_new_address_is_still_a_feed(fetcher):
    async with HostileSite.serve({"/feed": redirect("/new"), "/new": rss("/a")}) as site:
        moved = await process(fetcher, site, "/feed")
        (target,) = moved.references
        outcome = await process(fetcher, site, "/new", depth=0)

    assert (moved.code, target.link_type, outcome.code) == ("REDIRECT", "redirect", "FEED")


@pytest.mark.parametrize(
    ("route", "code"),
    [
        (answer(PAGE), "NOT_A_FEED"),
        (answer(b"\x89PNG", content_type="image/png"), "NOT_A_FEED"),
        (answer(b'<rss version="2.0"><channel><title>a', content_type="text/xml"), "BROKEN_FEED"),
        (answer(b"<rss>" + b"<a>" * 200_001, content_type="text/xml"), "TOO_LARGE"),
    ],
)
async def test_an_invalid_feed_fails_and_keeps_its_stored_entries(fetcher, route, code):
    async with HostileSite.serve({"/feed": route}) as site:
        outcome = await process(fetcher, site, "/feed")

    assert (outcome.ending, outcome.code, outcome.references) == (Ending.FAILED, code, None)


async def test_a_feed_that_cannot_be_read_now_is_tried_again(fetcher):
    class Broken:
        async def read(self, _body, **_facts):
            raise ChildrenBroken("no memory")

    async with HostileSite.serve({"/feed": rss("/a")}) as site:
        again = await process(fetcher, site, "/feed", feeds=Broken(), failures=0)
        last = await process(fetcher, site, "/feed", feeds=Broken(), failures=2)

    assert (again.ending, again.code) == (Ending.RETRY, "EXTRACTION_FAILED")
    assert (last.ending, last.references) == (Ending.FAILED, None)


async def test_a_feed_that_breaks_off_is_tried_again_before_it_fails(fetcher):
    cut = answer(b'<rss version="2.0"><channel><item><link>/a</link></item>', content_type="text/xml")
    async with HostileSite.serve({"/feed": cut}) as site:
        outcome = await process(fetcher, site, "/feed", failures=0)

    assert (outcome.ending, outcome.code, outcome.references) == (Ending.RETRY, "BROKEN_FEED", None)


async def test_an_unchanged_feed_is_not_read_and_keeps_its_entries(fetcher):
    whole, same = rss("/a", channel="<ttl>10</ttl>", headers=('ETag: "1"',)), answer(b"", status="304 Not Modified")
    async with HostileSite.serve({"/feed": whole}) as site:
        first = await process(fetcher, site, "/feed")
    async with HostileSite.serve({"/feed": same}) as site:
        second = await process(fetcher, site, "/feed", validators=first.validators)
        assert site.requests[-1].headers["if-none-match"] == '"1"'

    assert (second.ending, second.code, second.references) == (Ending.EXCLUDED, "304", None)
    assert second.schedule_bounds == first.schedule_bounds
    assert second.validators == first.validators


async def test_a_feed_with_changed_options_is_read_whole(fetcher):
    async with HostileSite.serve({"/feed": rss("/a", headers=('ETag: "1"',))}) as site:
        first = await process(fetcher, site, "/feed")
        await process(fetcher, site, "/feed", validators=first.validators, configuration="2", include=["b"])

        assert "if-none-match" not in site.requests[-1].headers


async def test_a_feed_that_robots_txt_forbids_is_not_requested(fetcher):
    robots = answer(b"User-agent: *\nDisallow: /feed", content_type="text/plain")
    async with HostileSite.serve({"/robots.txt": robots, "/feed": rss("/a")}) as site:
        outcome = await process(fetcher, site, "/feed")

        assert site.paths() == ["/robots.txt"]
    assert outcome.code == "ROBOTS"


@each_row(
    ("asked", "field"),
    [
        ({"seeds": ["nonsense"]}, "seeds"),
        ({"specification": {"scope": "host"}}, "scope"),
        ({"specification": {"max_depth": 1}}, "max_depth"),
        ({"specification": {"include": ["("]}}, "include"),
        ({"configuration": {"user_agent": ""}}, "user_agent"),
    ],
)
def test_an_invalid_option_of_a_feed_job_is_refused_by_name(asked, field):
    assert list(FEED.check(SourceSettings(**asked)).problems) == [field]


async def test_the_date_of_an_entry_is_the_origination_date_of_its_page(fetcher):
    dated = "<item><link>/a</link><pubDate>Tue, 01 Jan 2030 00:00:00 GMT</pubDate></item>"
    route = answer(f'<rss version="2.0"><channel>{dated}</channel></rss>'.encode(), content_type="text/xml")
    async with HostileSite.serve({"/feed": route, "/a": answer(status="500 Error")}) as site:
        feed = await process(fetcher, site, "/feed")
        carried = feed.references[0].carry
        # A page that cannot be read keeps the date of its entry.
        entry = await process(fetcher, site, "/a", depth=1, carried=carried)
        of_two_feeds = {"published": (*carried["published"], "2030-01-03T00:00:00+00:00")}
        shared = await process(fetcher, site, "/a", depth=1, carried=of_two_feeds)

    assert (feed.originated_at, entry.code) == (None, "500")
    assert entry.originated_at == dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
    assert shared.originated_at == dt.datetime(2030, 1, 3, tzinfo=dt.UTC)


async def test_rules_apply_to_entries_and_never_to_feeds(fetcher):
    async with HostileSite.serve({"/feed": rss("/a", "/b"), "/b": answer(PAGE)}) as site:
        feed = await process(fetcher, site, "/feed", include=["/a$"])
        refused = await process(fetcher, site, "/b", depth=1, include=["/a$"])

        assert "/b" not in site.paths()
    assert (feed.code, [named.identifier[-2:] for named in feed.references]) == ("FEED", ["/a"])
    assert (refused.code, refused.requested) == ("OUT_OF_SCOPE", False)


async def test_an_entry_has_the_metadata_that_its_feeds_carry(fetcher):
    async with HostileSite.serve({"/a": answer(PAGE)}) as site:
        carried = {"author": ("Ada",), "categories": ("one", "two"), "published": ("2026-01-01", "2026-01-02")}
        outcome = await process(fetcher, site, "/a", depth=1, carried=carried)
    assert outcome.content.metadata == {"author": ("Ada",), "categories": ("one", "two"), "published": ("2026-01-02",)}
