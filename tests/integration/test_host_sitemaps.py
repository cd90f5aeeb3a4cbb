"""Proves that the page of a host shows its sitemaps: the addresses in robots.txt, with their last answers."""

import datetime as dt
import re

import pytest

from jobs.connectors.repository.base import hash_of
from jobs.models import QueueItem, Robots
from jobs.queries.hosts.sitemaps import read_sitemaps
from tests.support.api import client_of
from tests.support.cluster import NOON, seconds
from tests.support.factories import make_bin, make_documents, make_job, make_lane

NEWS, UNREAD = "https://a.example/news.xml", "https://a.example/unread.xml"
RULES = "User-agent: *\nDisallow: /private\n"


@pytest.fixture(autouse=True)
def connected(connection):
    return connection


def write_robots(text, *, origin="https://a.example"):
    answer = {"kind": "rules", "text": text, "retry_after": None}
    Robots.objects.create(origin=origin, answer=answer, fetched_at=NOON, expires_at=NOON + seconds(60))


def test_a_host_shows_its_sitemaps_with_their_latest_answers():
    write_robots(RULES + f"Sitemap: {NEWS}\nSitemap: {UNREAD}\n")
    lane = make_lane(make_job("news").seeds.get(), "a.example")
    make_documents(lane, 1, fetched_at=NOON, result_code="404")
    QueueItem.objects.update(hash=hash_of(NEWS), identifier=NEWS)
    client = client_of("viewer")

    shown = client.get(f"/api/v1/hosts/{lane.bin_id}/").json()["sitemaps"]
    page = client.get(f"/hosts/{lane.bin_id}/").content.decode()

    assert [sitemap["address"] for sitemap in shown] == [NEWS, UNREAD]
    (document,) = shown[0]["documents"]
    read_at = dt.datetime.fromisoformat(document["fetched_at"])
    assert (document["job_name"], document["result_code"], read_at) == ("news", "404", NOON)
    assert shown[1]["documents"] == []
    table = page[page.index('id="sitemaps"') :].partition("</table>")[0]
    rows = [re.sub("<[^>]+>", " ", row).split() for row in table.split("<tr")[2:]]
    assert [row[1:4] for row in rows] == [[NEWS, "news", "404"], [UNREAD, "none"]]
    assert f"{NOON:%Y-%m-%d %H:%M}" in table


def test_a_host_that_names_no_sitemap_has_no_section_of_sitemaps():
    write_robots(RULES)
    host = make_bin("a.example")

    assert 'id="sitemaps"' not in client_of("viewer").get(f"/hosts/{host.pk}/").content.decode()


def test_at_most_twenty_sitemaps_are_shown():
    write_robots(RULES + "".join(f"Sitemap: https://a.example/{number}.xml\n" for number in range(500)))
    write_robots(RULES + "Sitemap: https://a.example/0.xml\n", origin="http://a.example")

    addresses = [sitemap.address for sitemap in read_sitemaps("a.example")]

    assert addresses == [f"https://a.example/{number}.xml" for number in range(20)]


def test_sitemaps_with_an_address_outside_of_the_web_are_left_out():
    write_robots(RULES + "Sitemap: /sitemap.xml\nSitemap: javascript:alert(1)\nSitemap: https://a.example/good.xml\n")

    assert [sitemap.address for sitemap in read_sitemaps("a.example")] == ["https://a.example/good.xml"]
