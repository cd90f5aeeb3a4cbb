"""Proves the stages that extract text from files, in this process and in child processes."""

import json
from pathlib import Path

import pytest
from pypdfium2 import PdfiumError, PdfPage

from jobs.connectors.transformation.base import Candidate, Item
from jobs.connectors.transformation.children import Children
from jobs.connectors.transformation.extract import EXTRACT
from jobs.connectors.transformation.language import LANGUAGE
from jobs.connectors.transformation.split import SPLIT
from jobs.extraction.pool import PoolLimits
from jobs.extraction.result import ExtractionFailed
from tests.support import files
from tests.support.tables import each_row

MAIL = "message/rfc822"
PDF = "application/pdf"
GERMAN = "Der schnelle braune Fuchs springt über den faulen Hund, und dies ist ein Bericht."


def open_stage(kind, **settings):
    return kind.open(kind.settings.read(settings))


def item(body, content_type, *, url="http://example.org/file?x=1", **facts):
    return Item(url=url, content_type=content_type, body=body, **facts)


def test_a_file_gets_its_text_and_metadata():
    (found,) = open_stage(EXTRACT).transform(item(files.pdf("Rye"), PDF, metadata={"owner": ("ada",)}))

    assert (found.text, found.title, found.body) == ("Rye", "The title", None)
    assert (found.metadata["owner"], found.metadata["author"]) == (("ada",), ("Ada Author",))


def test_pages_that_cannot_be_read_are_noted_also_in_attachments(monkeypatch):
    def get_textpage(_page):
        raise PdfiumError("Failed to load text page.")

    monkeypatch.setattr(PdfPage, "get_textpage", get_textpage)
    letter = files.mail("Rye", attachments={"a.pdf": files.pdf("Oats", "Hops")})

    document, part = open_stage(EXTRACT).transform(item(letter, MAIL))

    assert (document.text, document.note) == ("Rye", "2 pages of PDF could not be read.")
    assert part.metadata["unread_pages"] == ("2",)


def test_parts_are_components_with_separate_addresses():
    letter = files.mail("Rye", attachments={"a b.zip": files.zipped({"c.txt": "Oats"})})

    document, archive, member = open_stage(EXTRACT).transform(item(letter, MAIL))

    assert (document.component, archive.component, member.component) == ("", "a b.zip", "a b.zip!/c.txt")
    assert (member.url, member.text) == ("http://example.org/file?x=1#a%20b.zip!/c.txt", "Oats")


def test_a_stage_can_be_set_to_read_no_parts():
    letter = files.mail("Rye", attachments={"a.pdf": files.pdf("Oats")})

    assert len(open_stage(EXTRACT, parts=False).transform(item(letter, MAIL))) == 1


def test_a_document_that_has_a_text_and_one_of_an_unknown_type_pass():
    for given in (
        item(None, "text/html", text="Rye"),
        item(b"\x89PNG", "image/png"),
        item(bytes(9), "application/zip2"),
    ):
        assert open_stage(EXTRACT).transform(given) == (given,)


@each_row(
    "content_type, url, is_read",
    [
        (PDF, "http://a/x", True),
        ("application/octet-stream", "http://a/x.DOCX?download=1", True),
        ("application/octet-stream", "http://a/x.exe", False),
        ("text/html", "http://a/x.pdf", False),
        ("image/png", "http://a/x", False),
        ("application/vnd.oasis.opendocument.text", "http://a/x", True),
    ],
)
def test_a_source_reads_the_bytes_of_files_that_may_have_a_text(content_type, url, is_read):
    assert open_stage(EXTRACT).reads(Candidate(url, content_type)) is is_read


def test_a_splitter_passes_on_the_bytes_of_parts():
    letter = files.mail("Rye", attachments={"a.pdf": files.pdf("Oats")})

    document, part = open_stage(SPLIT).transform(item(letter, MAIL))
    (read,) = open_stage(EXTRACT).transform(part)

    assert document.body == letter
    assert (part.component, read.text, read.component) == ("a.pdf", "Oats", "a.pdf")


def test_a_language_is_found_where_none_is_named():
    named = item(None, "text/plain", text=GERMAN, language="en")

    assert open_stage(LANGUAGE).transform(item(None, "text/plain", text=GERMAN))[0].language == "de"
    assert open_stage(LANGUAGE).transform(named) == (named,)
    assert open_stage(LANGUAGE, replace=True).transform(named)[0].language == "de"


async def test_stages_run_in_children_without_the_settings_of_the_program(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgres://secret")
    children = Children(PoolLimits(processes=1), plugins=())
    try:
        letter = item(files.mail(GERMAN, attachments={"a.pdf": files.pdf("Rye")}), MAIL)
        read = await children.transform("extract", "{}", letter)
        split = await children.transform("split", "{}", letter)
        page = item(b"<p class=a>Rye<p>Oats", "text/html")
        (chosen,) = await children.transform("html", json.dumps({"text": [".a"]}), page)
        with pytest.raises(ExtractionFailed, match=r"The file is encrypted\."):
            await children.transform("extract", "{}", item(files.pdf("x", is_encrypted=True), PDF))
        environment = open_environment(children.processes[0])
    finally:
        await children.close()

    assert [found.component for found in read] == ["", "a.pdf"]
    assert (read[0].language, read[1].text) == ("de", "Rye")
    assert split[0].body == letter.body
    assert split[1].body == files.pdf("Rye")
    assert chosen.text == "Rye"
    assert "secret" not in environment


def open_environment(process):
    return Path(f"/proc/{process}/environ").read_text(encoding="utf-8")


async def test_every_field_of_an_item_crosses_the_pipe():
    import datetime as dt

    given = Item(
        url="http://a",
        content_type="x/y",
        charset="utf-8",
        text="Grün",
        body=b"\xff",
        title="T",
        description="D",
        language="de",
        originated_at=dt.datetime(2024, 5, 6, tzinfo=dt.UTC),
        metadata={"a": ("1", "2")},
        component="c",
    )
    children = Children(PoolLimits(processes=1), plugins=())
    try:
        assert await children.transform("null", "{}", given) == [given]
    finally:
        await children.close()


async def test_a_text_of_a_child_can_be_stored():
    class Taken:
        async def ask(self, facts, body):
            return {"items": [{**facts["item"], "text": "a\0b\ud800"}]}

    children = Children(PoolLimits(), plugins=())
    children._pool = Taken()

    (found,) = await children.transform("language", "{}", item(b"x", PDF))

    assert found.text == "ab?"
