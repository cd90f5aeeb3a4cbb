import bz2
import contextlib
import gzip
import io
import lzma
import random
import tarfile
import zipfile

import pytest
from pypdfium2 import PdfiumError, PdfPage

from jobs.extraction.budget import Limits
from jobs.extraction.extract import Wanted, extract
from jobs.extraction.result import Extraction, ExtractionFailed, Reason
from tests.support import files
from tests.support.tables import each_row

_OFFICE = "application/vnd.openxmlformats-officedocument"
_ALL = Wanted()
_SMALL = Limits(characters=1_000, unpacked=200_000, parts=3, levels=2, members=50)


def read(body, *, content_type="", name="", limits=_SMALL, wanted=_ALL):
    return extract(body, content_type=content_type, name=name, limits=limits, wanted=wanted)


def reason_of(body, **more):
    with pytest.raises(ExtractionFailed) as failure:
        read(body, **more)
    return failure.value.reason


def tarred(members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, body in members.items():
            facts = tarfile.TarInfo(name)
            facts.size = len(body)
            archive.addfile(facts, io.BytesIO(body))
    return buffer.getvalue()


@each_row(
    "body, content_type, text, author",
    [
        (files.pdf("Rye", "Oats"), "application/pdf", "Rye\nOats", "Ada Author"),
        (files.docx("Rye", "Oats & hay"), f"{_OFFICE}.wordprocessingml.document", "Rye\nOats & hay", "Ada Author"),
        (files.xlsx(), f"{_OFFICE}.spreadsheetml.sheet", "Yields\nBarley 42.5 2023-03-15 tons", None),
        (files.pptx("Rye", "Oats"), f"{_OFFICE}.presentationml.presentation", "Rye\nOats", None),
        (files.odt("Rye", "Oats"), "application/vnd.oasis.opendocument.text", "Rye\nOats", "Ada Author"),
        (files.mail("Rye\nOats"), "message/rfc822", "Rye\nOats", "Ada Author <ada@example.org>"),
        (files.outlook("Rye\nOats"), "application/vnd.ms-outlook", "Rye\nOats", "Ada Author"),
        ("Grün".encode("cp1252"), "text/plain", "Grün", None),
        (b"<html><title>T</title><p>Rye", "text/html", "Rye", None),
    ],
)
def test_each_format_gives_its_text_whatever_its_header_says(body, content_type, text, author):
    found = read(body, content_type="application/octet-stream", name="file")

    assert (found.content_type, found.text) == (content_type, text)
    assert found.metadata.get("author") == (None if author is None else (author,))


@each_row("body", [files.pdf("Rye"), files.docx("Rye"), files.odt("Rye"), files.mail("Rye")])
def test_the_title_and_the_dates_of_a_file_are_found(body):
    found = read(body)

    assert found.title == "The title"
    assert found.metadata.get("created", ("2024-05",))[0].startswith("2024-05")


@each_row("body", [files.docx("Rye"), files.odt("Rye")])
def test_custom_properties_of_a_file_become_metadata(body):
    assert read(body).metadata["custom:Project"] == ("Harvest",)


def test_html_of_an_e_mail_counts_only_without_a_plain_text():
    page = b"MIME-Version: 1.0\nFrom: a@b\nSubject: x\nDate: y\nContent-Type: text/html\n\n<p>Rye</p><script>x</script>"
    both = (
        b"From: a@b\nSubject: x\nDate: y\nMIME-Version: 1.0\nContent-Type: multipart/alternative; boundary=b\n\n"
        b"--b\nContent-Type: text/plain\n\nOats\n--b\nContent-Type: text/html\n\n<p>Rye\n--b--\n"
    )

    assert read(page).text == "Rye"
    assert (read(both).text, read(both).parts) == ("Oats", ())


@each_row(
    "text, language",
    [
        ("Der schnelle braune Fuchs springt über den faulen Hund, und dies ist ein Bericht.", "de"),
        ("Le rapport de cette année parle de la récolte et des marchés dans tout le pays.", "fr"),
        ("この報告書は今年の収穫と国内市場についてのものです。", "ja"),
        ("12 34", ""),
    ],
)
def test_the_language_is_found_in_the_text(text, language):
    assert read(text.encode()).language == language


def test_a_language_named_in_the_file_wins_over_a_guess():
    assert read(files.odt("This is a report about the harvest of the year.")).language == "de-AT"


def test_attachments_and_members_are_parts_with_paths():
    letter = files.mail("Rye", attachments={"a.docx": files.docx("Oats"), "b.zip": files.zipped({"c.txt": "Hay"})})

    parts = read(letter).parts

    assert [(part.id, part.text) for part in parts] == [("a.docx", "Oats"), ("b.zip", ""), ("b.zip!/c.txt", "Hay")]
    assert len({part.digest for part in parts}) == 3


@each_row(
    "body, name, paths",
    [
        (files.zipped({"a.txt": "Rye", "d/b.txt": "Oats"}), "", ["a.txt", "d/b.txt"]),
        (tarred({"a.txt": b"Rye", "d/b.txt": b"Oats"}), "", ["a.txt", "d/b.txt"]),
        (gzip.compress(tarred({"a.txt": b"Rye"})), "x.tgz", ["x.tar", "x.tar!/a.txt"]),
        (bz2.compress(b"Rye"), "a.txt.bz2", ["a.txt"]),
        (lzma.compress(b"Rye"), "", ["content"]),
        (files.docx("Rye", more={"word/embeddings/t.xlsx": files.xlsx()}), "", ["t.xlsx"]),
    ],
)
def test_each_kind_of_archive_gives_its_members(body, name, paths):
    assert [part.id for part in read(body, name=name).parts] == paths


def test_two_members_with_one_name_are_two_parts():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.txt", "Rye")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.txt", "Oats")

    assert [part.id for part in read(buffer.getvalue()).parts] == ["a.txt", "a.txt (2)"]


def test_parts_are_not_read_if_they_are_not_wanted():
    letter = files.mail("Rye", attachments={"bomb.gz": gzip.compress(bytes(1_000_000))})

    assert read(letter, wanted=Wanted(parts=False)).parts == ()


def test_a_part_that_cannot_be_read_has_a_reason_and_hides_no_other_part():
    archive = files.zipped({"a.pdf": files.pdf("x", is_encrypted=True), "b.bin": bytes(range(256)), "c.txt": "Rye"})

    parts = read(archive).parts

    assert [part.problem for part in parts] == [Reason.ENCRYPTED, Reason.UNKNOWN_TYPE, None]
    assert parts[2].text == "Rye"


def test_an_error_of_a_reader_within_a_part_hides_no_other_part(monkeypatch):
    def breaks(*_given):
        raise ZeroDivisionError

    monkeypatch.setattr("jobs.extraction.formats.plain.read_html", breaks)

    parts = read(files.zipped({"a.html": "<html><p>x", "c.txt": "Rye"})).parts

    assert [(part.problem, part.text) for part in parts] == [(Reason.CRASH, ""), (None, "Rye")]


def test_a_cut_title_of_a_pdf_hides_no_text():
    found = read(files.pdf("Rye").replace(b"(The title)", b"<FEFF0041D83D>"))

    assert (found.title, found.text) == ("A\ufffd", "Rye")


def test_a_broken_page_and_attachment_of_a_pdf_hide_no_readable_part(monkeypatch):
    readable = PdfPage.get_textpage

    def get_textpage(page):
        if page.get_height() < 200:
            raise PdfiumError("Failed to load text page.")
        return readable(page)

    monkeypatch.setattr(PdfPage, "get_textpage", get_textpage)
    tree = b"/Pages 2 0 R/Names<</EmbeddedFiles<</Names[(a)99 0 R]>>>>"
    body = files.pdf("Rye", "Oats", "Hops").replace(b"400 200", b"400 100", 1).replace(b"/Pages 2 0 R", tree, 1)

    found = read(body)

    assert (found.text, found.metadata["pages"], found.metadata["unread_pages"]) == ("Oats\nHops", ("3",), ("1",))
    assert found.note == "1 page of PDF could not be read."
    assert [(part.id, part.problem) for part in found.parts] == [("attachment-1", Reason.DAMAGED)]


_ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><w:document xmlns:w="w"><w:t>&b;</w:t></w:document>'
_QUADRATIC = f'<w:document xmlns:w="w">{"<w:a>" * 300}'


@each_row(
    "body, reason",
    [
        (files.pdf("x", is_encrypted=True), Reason.ENCRYPTED),
        (files.odt("x", is_encrypted=True), Reason.ENCRYPTED),
        (files.ole({("EncryptedPackage",): b"x"}), Reason.ENCRYPTED),
        (files.ole({("WordDocument",): b"x"}), Reason.UNKNOWN_TYPE),
        (b"%PDF-1.4 nothing more", Reason.DAMAGED),
        (files.docx("Rye")[:-40], Reason.DAMAGED),
        (files.docx("Rye", more={"word/document.xml": "<w:document"}), Reason.DAMAGED),
        (files.docx("Rye", more={"word/document.xml": _ENTITIES}), Reason.DAMAGED),
        (files.docx("Rye", more={"word/document.xml": _QUADRATIC}), Reason.NESTED),
        (files.docx("Rye", more={"word/document.xml": "<a>" + " " * 1_000_000}), Reason.BOMB),
        (
            files.docx("Rye", more={"word/document.xml": "<?xml version='1.0' encoding='nonsense'?><a/>"}),
            Reason.DAMAGED,
        ),
        (files.outlook("Rye")[:700], Reason.DAMAGED),
        (gzip.compress(bytes(1_000_000)), Reason.BOMB),
        (gzip.compress(b"Rye" * 99)[:-9], Reason.DAMAGED),
        (files.zipped({"a": bytes(150_000), "b": bytes(150_000)}), Reason.BOMB),
        (files.zipped({f"{number}": b"" for number in range(60)}), Reason.BOMB),
        (gzip.compress(gzip.compress(gzip.compress(b"Rye"))), Reason.NESTED),
        (tarred({"a.txt": b"Rye" * 5_000})[:1_000], Reason.DAMAGED),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), Reason.UNKNOWN_TYPE),
    ],
)
def test_a_hostile_or_broken_file_fails_with_a_plain_reason(body, reason):
    assert reason_of(body) is reason


def test_numbers_of_sheets_and_slides_are_bounded():
    endless = "1" * 5_000
    sheets = files.zipped(
        {"[Content_Types].xml": "<a/>", "xl/workbook.xml": "<a/>", f"xl/worksheets/sheet{endless}.xml": "<a/>"}
    )
    slides = files.zipped(
        {"[Content_Types].xml": "<a/>", "ppt/presentation.xml": "<a/>", f"ppt/slides/slide{endless}.xml": "<a/>"}
    )

    assert [read(sheets).text, read(slides).text] == ["", ""]


def test_changed_and_cut_bytes_break_no_reader():
    letter = files.mail("Rye", attachments={"a.docx": files.docx("Oats"), "b.eml": files.mail("Hay")})
    whole = [
        files.pdf("Rye"),
        files.docx("Rye"),
        files.xlsx(),
        files.odt("Rye"),
        letter,
        files.outlook("Rye"),
        tarred({"a": b"Rye"}),
    ]
    chance = random.Random(20_241_106)
    for body in whole * 60:
        changed = bytearray(body)
        for _ in range(chance.randint(1, 6)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        if chance.random() < 0.2:
            del changed[chance.randrange(len(changed)) :]
        with contextlib.suppress(ExtractionFailed):
            read(bytes(changed))


def test_a_member_without_a_name_is_no_part():
    archive = files.zipped({"a.txt": "Rye", "b.txt": "Oats"})
    place = archive.rindex(b"PK\x01\x02")
    nameless = bytearray(archive)
    # Set the length of the name to 0 in the list of members, so that the bytes of the name count as a comment.
    nameless[place + 28 : place + 34] = b"\0\0\0\0\x05\0"

    assert [part.id for part in read(bytes(nameless)).parts] == ["a.txt"]


def test_an_e_mail_of_a_thousand_multiparts_is_bounded():
    deep = b"From: a\nDate: b\nSubject: c\nMIME-Version: 1.0\n"
    for level in range(1_000):
        deep += b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (level, level)

    assert reason_of(deep) in {Reason.NESTED, Reason.DAMAGED}


def test_a_long_text_is_cut_at_the_limit():
    found = read(files.docx("Rye " * 1_000))

    assert (len(found.text), found.is_cut) == (1_000, True)
    assert found.note == "The text ends at the limit of characters."


def test_an_extraction_notes_that_it_left_out_parts_beyond_the_limit():
    found = read(files.zipped({f"{number}.txt": "Rye" for number in range(9)}))

    assert (len(found.parts), found.lacks_parts) == (3, True)
    assert found.note == "Some parts of the file were left out."


def test_a_workbook_whose_cells_repeat_a_long_text_is_bounded():
    cells = '<c t="s"><v>0</v></c>' * 5_000
    body = files.zipped(
        {
            "[Content_Types].xml": "<Types/>",
            "xl/workbook.xml": "<workbook/>",
            "xl/sharedStrings.xml": f"<sst><si><t>{'x' * 900}</t></si></sst>",
            "xl/worksheets/sheet1.xml": f"<worksheet><row>{cells}</row></worksheet>",
        }
    )

    assert len(read(body).text) <= 1_000


def test_an_extraction_crosses_a_pipe_unchanged():
    found = read(files.zipped({"a.pdf": files.pdf("x", is_encrypted=True), "c.txt": "Rye"}))

    assert Extraction.from_json(found.to_json()) == found


def test_characters_that_no_database_stores_are_removed_from_a_text():
    value = Extraction("text/plain", text="a\0b\ud800").to_json()

    assert Extraction.from_json(value).text == "ab?"
