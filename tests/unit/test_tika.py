"""Proves the stage that sends documents to a Tika server, with a small server that answers like Tika."""

import asyncio

import pytest

from jobs.connectors.transformation.base import Candidate, Item, Unavailable
from jobs.connectors.transformation.tika import TIKA, TikaFailed
from tests.support.tables import each_row
from tests.support.tika import tika

DOC = "application/msword"


def stage(url, **settings):
    return TIKA.open(TIKA.settings.read({"url": url, **settings}))


def item(body=b"Rye\nOats", *, content_type=DOC, url="http://example.org/a/letter.doc?x=1"):
    return Item(url=url, content_type=content_type, body=body, metadata={"owner": ("ada",)})


async def test_a_document_gets_its_text_and_metadata_from_the_server():
    async with tika() as server:
        (found,) = await stage(server.url).transform_async(item())

    path, headers, body = server.asked[0]
    assert (path, headers["Content-Type"], headers["Accept"], body) == (
        "/rmeta/text",
        DOC,
        "application/json",
        b"Rye\nOats",
    )
    assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''letter.doc"
    assert (found.text, found.title, found.content_type, found.body) == ("Rye\nOats", "The title", DOC, None)
    assert found.metadata == {
        "owner": ("ada",),
        "author": ("Ada Author", "Bob Author"),
        "created": ("2024-05-06T07:08:09Z",),
    }


async def test_embedded_documents_are_components():
    async with tika() as server:
        document, part = await stage(server.url).transform_async(item(b"Rye\n+Oats"))

    assert document.text == "Rye"
    assert (part.component, part.text, part.url) == (
        "part2.txt",
        "Oats",
        "http://example.org/a/letter.doc?x=1#part2.txt",
    )


async def test_a_document_that_has_a_text_is_not_sent():
    async with tika() as server:
        given = item(content_type="text/html")
        assert await stage(server.url).transform_async(given) == (given,)

    assert server.asked == []
    assert not stage(server.url).reads(Candidate("http://a", "text/html"))
    assert stage(server.url).reads(Candidate("http://a", DOC))


async def test_a_document_that_tika_does_not_know_passes():
    async with tika() as server:
        given = item()
        for server.status in (204, 415):
            assert await stage(server.url).transform_async(given) == (given,)


async def test_a_document_is_retried_later_if_the_server_is_busy():
    async with tika() as server:
        server.status, server.headers = 503, {"Retry-After": "7"}
        with pytest.raises(Unavailable, match="answered 503") as busy:
            await stage(server.url).transform_async(item())

    assert busy.value.retry_after == 7


async def test_a_document_is_retried_later_if_the_server_is_unreachable():
    async with tika() as server:
        url = server.url
    with pytest.raises(Unavailable, match="cannot be reached"):
        await stage(url).transform_async(item())


async def test_a_document_that_tika_cannot_read_fails():
    async with tika() as server:
        server.status = 422
        with pytest.raises(TikaFailed, match="encrypted, damaged or not supported"):
            await stage(server.url).transform_async(item())
        server.status = 500
        with pytest.raises(TikaFailed, match="answered 500"):
            await stage(server.url).transform_async(item())
        server.status = 200
        for server.raw in (b"{", b"{}", b"[1]"):
            with pytest.raises(TikaFailed, match="answer of Tika is"):
                await stage(server.url).transform_async(item())


async def test_a_document_over_which_tika_hangs_fails_in_time():
    async with tika() as server:
        server.hangs = asyncio.Event()
        with pytest.raises(TikaFailed, match="within 1 s"):
            await stage(server.url, seconds=1).transform_async(item())


async def test_a_worker_sends_at_most_its_limit_of_concurrent_documents():
    async with tika() as server:
        server.hangs = asyncio.Event()
        one_at_a_time = stage(server.url, connections=1)
        sent = [asyncio.create_task(one_at_a_time.transform_async(item())) for _ in range(3)]
        async with asyncio.timeout(60):
            while not server.asked:  # noqa: ASYNC110 (the server has no event for a test)
                await asyncio.sleep(0)
        assert len(server.asked) == 1
        server.hangs.set()
        await asyncio.gather(*sent)

    assert len(server.asked) == 3


@each_row("url", ["", "tika:9998", "ftp://a", "http://", "http://a:99999"])
def test_an_invalid_address_of_a_tika_server_is_refused(url):
    assert "url" in TIKA.check({"url": url})
