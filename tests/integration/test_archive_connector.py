"""
Proves that archives are read as a source: the newest answer of an address counts, and only allowed directories are
read.
"""

import datetime as dt
import gzip
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from jobs.archive import barc, files
from jobs.archive.records import Archived, Format, Original, RecordKind, digest_of
from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.archive.connector import ArchiveConnector
from jobs.connectors.repository.archive.kind import ARCHIVE
from jobs.connectors.repository.archive.library import Library
from jobs.connectors.repository.archive.originals import Originals
from jobs.connectors.repository.archive.places import read_place
from jobs.connectors.repository.archive.specification import ArchiveSpecification
from jobs.connectors.repository.base import Document, Ending, hash_of
from jobs.connectors.repository.kind import BadIdentifier, Seeding, SeedingFailed, SourceSettings
from jobs.settings.table import FILE_ROOTS
from tests.support.free_pace import FreePace
from tests.support.stages import ReadsTypes

pytestmark = pytest.mark.django_db

FIRST = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
URL = "http://a.example/one"
LONG_AGO = 1_600_000_000


def page(text):
    return f"<html><title>{text} title</title><body>{text}</body></html>".encode()


def an_answer(url=URL, *, days=0, text="words", status=200, headers=b"Content-Type: text/html\r\n", body=None, **facts):
    body = page(text) if body is None else body
    return Archived(
        url=url, date=FIRST + days * DAY, kind=RecordKind.RESPONSE, status=status, request_head=b"",
        response_head=f"HTTP/1.1 {status} X\r\n".encode() + headers + b"\r\n", body=body, digest=digest_of(body), **facts,
    )  # fmt: skip


def a_revisit(of, *, days, url=URL, kind=RecordKind.SAME_PAYLOAD):
    status = 200 if kind is RecordKind.SAME_PAYLOAD else 304
    given = an_answer(url, days=days, status=status, body=b"", original=Original(of.url, of.date))
    return replace(given, kind=kind, digest=of.digest)


@pytest.fixture
def replay(tmp_path):
    with ThreadPoolExecutor(2) as threads:
        yield Replay(tmp_path / "root", threads)


class Replay:
    """A directory with archive files, and a job that reads these files without a queue."""

    def __init__(self, root, threads):
        root.mkdir()
        self.root, self._threads = root, threads
        self.specification = {}
        self.outcomes = {}
        self.pipeline = None

    def write(self, name, *answers, form=Format.WARC):
        """Write an archive file with a modification time long ago. Return its path."""
        path = self.root / name
        path.unlink(missing_ok=True)
        file = files.OpenFile.create(path, form, software="x", date=FIRST)
        file.append(answers)
        file.close()
        os.utime(path, (LONG_AGO, LONG_AGO))
        return path

    def asked(self, *seeds, **facts):
        return SourceSettings(
            {"roots": [str(self.root)]}, self.specification, seeds or [f"archive://{self.root}"], **facts
        )

    async def process(self, identifier, *, carried=None, configuration="1"):
        before = self.outcomes.get(identifier)
        document = Document(
            hash=hash_of(identifier), identifier=identifier, depth=0, redirects=0, failures=0, failing_for=0.0,
            version=before.version if before else "", validators=before.validators if before else "",
            carried=carried or None,
        )  # fmt: skip
        activity = Activity(document, configuration, pipeline=self.pipeline)
        connector = ArchiveConnector(ArchiveSpecification.read(self.asked()), threads=self._threads)
        await connector.process(document, activity, FreePace())
        self.outcomes[identifier] = activity.outcome
        return activity.outcome

    async def run(self):
        """
        Process the roots and their parts, then all pages with the values that their parts carry to them. Return the
        pages' outcomes.
        """
        places, pages = [f"archive://{self.root}"], {}
        while places:
            place = places.pop(0)
            before = self.outcomes.get(place)
            outcome = await self.process(place)
            if outcome.references is None:
                outcome.references = before.references
            for reference in outcome.references or ():
                if reference.link_type == "part":
                    places.append(reference.identifier)
                else:
                    pages.setdefault(reference.identifier, []).extend(reference.carry["at"])
        return {url: await self.process(url, carried={"at": tuple(sorted(at))}) for url, at in sorted(pages.items())}

    async def page(self, url=URL):
        return (await self.run())[url]


async def test_the_newest_answer_in_all_files_wins(replay):
    replay.write("b.warc.gz", an_answer(days=1, text="middle"), an_answer(days=0, text="old"))
    replay.write("a.barc", an_answer(days=2, text="new"), form=Format.BARC)

    outcome = await replay.page()

    assert (outcome.ending, outcome.code, outcome.content.text, outcome.content.title) == (
        Ending.INDEXED, "200", "new", "new title",
    )  # fmt: skip
    assert outcome.originated_at == FIRST + 2 * DAY
    assert outcome.version.split(":", 1)[1].startswith("2026-03-03T12:00:00")


@pytest.mark.parametrize("kind", [RecordKind.SAME_PAYLOAD, RecordKind.NOT_MODIFIED])
@pytest.mark.parametrize("form", list(Format))
async def test_a_revisit_takes_the_body_of_its_original(replay, kind, form):
    first = an_answer(text="kept words")
    replay.write("a.x.barc" if form is Format.BARC else "a.warc.gz", first, form=form)
    replay.write("b.warc.gz", a_revisit(first, days=3, kind=kind))

    outcome = await replay.page()

    assert (outcome.code, outcome.content.text, outcome.originated_at) == ("200", "kept words", FIRST + 3 * DAY)


async def test_a_revisit_of_another_address_takes_its_body(replay):
    other = an_answer("http://b.example/", text="shared words")
    replay.write("a.warc.gz", other)
    replay.write("b.warc.gz", a_revisit(other, days=1))

    assert (await replay.page()).content.text == "shared words"


def test_an_archive_file_too_large_for_the_index_hides_no_other_file(replay, monkeypatch):
    class Small(sqlite3.Connection):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            # The file has room for the table, its index, and a few rows.
            self.execute("PRAGMA max_page_count = 3")

    monkeypatch.setattr("jobs.connectors.repository.archive.originals.sqlite3.connect", Small)
    replay.write("a.warc.gz", *(an_answer(f"http://many.example/{number}") for number in range(200)))
    wanted = an_answer("http://b.example/", text="shared words")
    replay.write("b.warc.gz", wanted)
    originals = Originals(Library([os.fsencode(replay.root)]), [read_place(f"archive://{replay.root}")])

    found = originals.find(Original(wanted.url, wanted.date), wanted.digest)

    assert found is not None
    assert found.path == os.fsencode(replay.root / "b.warc.gz")


async def test_revisits_that_refer_to_each_other_are_not_followed_forever(replay):
    one, other = an_answer(), an_answer("http://b.example/", days=1)
    replay.write("a.warc.gz", a_revisit(other, days=0), a_revisit(one, days=1, url=other.url))

    outcomes = await replay.run()

    assert [(outcome.ending, outcome.code) for outcome in outcomes.values()] == [(Ending.FAILED, "NO_ORIGINAL")] * 2


async def test_the_last_answer_of_an_address_decides_as_in_a_crawl(replay):
    urls = [f"http://a.example/{name}" for name in ("gone", "moved", "busy", "forbidden", "image", "hidden")]
    gone, moved, busy, forbidden, image, hidden = urls
    replay.write(
        "a.warc.gz",
        *map(an_answer, urls),
        an_answer(gone, days=1, status=410),
        an_answer(moved, days=1, status=301),
        an_answer(busy, days=1, status=503),
        an_answer(forbidden, days=1, status=403),
        an_answer(image, days=1, headers=b"Content-Type: image/png\r\n", body=b"\x89PNG"),
        an_answer(hidden, days=1, headers=b"Content-Type: text/html\r\nX-Robots-Tag: noindex\r\n"),
    )

    codes = {url: outcome.code for url, outcome in (await replay.run()).items()}

    assert [codes[url] for url in urls] == ["410", "REDIRECT", "200", "200", "NOT_TEXT", "NOINDEX"]


async def test_options_of_an_archive_job_select_answers_by_date_status_and_type(replay):
    replay.write(
        "a.warc.gz",
        *(an_answer(days=days, text=f"day {days}") for days in range(4)),
        an_answer(days=5, status=404),
        an_answer("http://a.example/plain", headers=b"Content-Type: text/plain\r\n", body=b"plain"),
        an_answer("http://a.example/secret"),
    )

    async def texts(**specification):
        replay.specification, replay.outcomes = specification, {}
        found = await replay.run()
        return {url.rpartition("/")[2]: one.content.text if one.content else one.code for url, one in found.items()}

    assert (await texts())["one"] == "404"
    assert (await texts(statuses=["200"]))["one"] == "day 3"
    assert (await texts(statuses=["200"], latest="2026-03-02"))["one"] == "day 1"
    assert (await texts(latest="2026-03-02T11:59:59Z"))["one"] == "day 0"
    assert "secret" not in await texts(earliest="2026-03-02")
    assert (await texts(content_types=["text/html"]))["plain"] == "EXCLUDED_TYPE"
    assert set(await texts(exclude=["secret"])) == {"one", "plain"}


async def test_a_second_run_reads_only_new_records_of_grown_files(replay):
    image = an_answer("http://a.example/image", headers=b"Content-Type: image/png\r\n")
    path = replay.write("a.warc.gz", an_answer(), image)
    assert [one.requested for one in (await replay.run()).values()] == [True, True]

    again = await replay.run()

    assert [one.code for one in again.values()] == ["NOT_TEXT", "UNCHANGED"]
    assert not any(one.requested for one in again.values())
    more = replay.write("more", an_answer("http://a.example/new"))
    path.write_bytes(path.read_bytes() + more.read_bytes())

    grown = await replay.run()

    assert {url for url, one in grown.items() if one.requested} == {"http://a.example/new"}


async def test_an_archived_page_is_read_like_a_page_of_the_web_connector(replay):
    text = "Grüße aus Köln"
    replay.write(
        "a.warc.gz",
        an_answer(
            "HTTP://A.example:80/%7Eone#x",
            headers=b"Content-Type: text/html; charset=iso-8859-1\r\n",
            body=f"<html lang='de'><main>{text}</main></html>".encode("latin-1"),
        ),
    )

    outcome = await replay.page("http://a.example/~one")

    assert (outcome.content.text, outcome.content.language, outcome.content.url) == (
        text,
        "de",
        "http://a.example/~one",
    )
    assert outcome.references == []


async def test_an_unreadable_answer_leaves_the_previous_answer_in_place(replay):
    bomb = gzip.compress(bytes(30_000_000))
    replay.write(
        "a.warc.gz",
        an_answer(text="kept"),
        an_answer(days=1, truncated="length", text="cut"),
        an_answer("http://a.example/bomb", headers=b"Content-Type: text/html\r\nContent-Encoding: gzip\r\n", body=bomb),
    )

    outcomes = await replay.run()

    assert outcomes[URL].content.text == "kept"
    assert (outcomes["http://a.example/bomb"].ending, outcomes["http://a.example/bomb"].code) == (
        Ending.FAILED, "TOO_LARGE",
    )  # fmt: skip


async def test_a_record_that_was_replaced_meanwhile_is_not_read(replay):
    path = replay.write("a.barc", an_answer(text="old"), an_answer("http://a.example/two"), form=Format.BARC)
    part = await replay.process(f"archive://{path}")
    at = {reference.identifier: reference.carry for reference in part.references}
    with path.open("r+b") as file:
        barc.mark_replaced(file, 0)

    outcome = await replay.process(URL, carried=at[URL])

    assert (outcome.ending, outcome.code) == (Ending.RETRY, "CHANGING")


async def test_names_in_an_archive_are_never_used_as_file_paths(replay, tmp_path):
    (tmp_path / "secret.warc.gz").write_bytes(b"")
    replay.write("a.warc.gz", an_answer("http://a.example/../../secret.warc.gz"), an_answer("file:///etc/passwd"))
    (replay.root / "link.warc.gz").symlink_to(tmp_path / "secret.warc.gz")

    outcomes = await replay.run()

    assert list(outcomes) == ["http://a.example/secret.warc.gz"]
    outside = await replay.process(f"archive://{tmp_path}/secret.warc.gz")
    link = await replay.process(f"archive://{replay.root}/link.warc.gz")
    missing = await replay.process(f"archive://{replay.root}/missing.warc.gz")
    assert [one.code for one in (outside, link, missing)] == ["OUT_OF_ROOT", "SYMLINK", "NOT_FOUND"]
    assert [one.removes for one in (outside, link, missing)] == [True] * 3


async def test_a_pattern_in_an_archive_address_selects_matching_files(replay):
    for folder in ("x", "y/deep"):
        (replay.root / folder).mkdir(parents=True)
    for name in ("one.warc.gz", "x/two.warc.gz", "y/deep/three.warc.gz", "y/deep/four.barc", "x/other"):
        (replay.root / name).write_bytes(b"")

    async def matching(pattern):
        outcome = await replay.process(f"archive://{replay.root}/{pattern}")
        return {reference.identifier.rpartition("/")[2] for reference in outcome.references}

    assert await matching("*.warc.gz") == {"one.warc.gz"}
    assert await matching("**/*.warc.gz") == {"one.warc.gz", "two.warc.gz", "three.warc.gz"}
    assert await matching("x/*") == {"two.warc.gz", "other"}
    assert len((await replay.process(f"archive://{replay.root}")).references) == 4


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("archive:///srv//a/./x.warc.gz", "archive:///srv/a/x.warc.gz"),
        ("ARCHIVE://localhost/srv/a%20b", "archive:///srv/a%20b"),
        ("archive:///srv/*.warc.gz", "archive:///srv/*.warc.gz"),
        ("archive:///*", "archive:///*"),
        ("archive:///srv/a%2Ab", "archive:///srv/a%2Ab"),
        ("archive:///srv/a.barc#12", "archive:///srv/a.barc#12"),
    ],
)
def test_an_archive_address_has_one_identifier(typed, meant):
    assert ARCHIVE.canonical(typed) == meant
    assert read_place(meant).identifier == meant


@pytest.mark.parametrize(
    "typed", ["file:///srv/a", "archive://host/a", "archive:///a/../b", "archive:///a?b", "archive:///a#x", "http://a/",
              "archive:///a/*/../b", "archive:///a\x00b"],
)  # fmt: skip
def test_invalid_archive_addresses_are_refused(typed):
    with pytest.raises(BadIdentifier):
        ARCHIVE.canonical(typed)


@pytest.mark.parametrize(
    ("field", "value"),
    [("earliest", "soon"), ("latest", "2026-13-01"), ("statuses", ["ok"]), ("statuses", ["99"]), ("include", ["("]),
     ("content_types", ["x"]), ("robots_name", "a b")],
)  # fmt: skip
def test_an_invalid_option_of_an_archive_job_is_refused_by_its_field(replay, field, value):
    replay.specification = {field: value}
    assert set(ARCHIVE.check(replay.asked()).problems) == {field}


def test_archives_outside_of_the_roots_are_refused(replay, settings, tmp_path):
    values = {FILE_ROOTS.path: (str(tmp_path / "another"),)}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}
    assert "roots" in ARCHIVE.check(replay.asked(is_confined=True)).problems
    with pytest.raises(SeedingFailed, match="CRAWLCTL_FILE_ROOTS"):
        ARCHIVE.seed(replay.asked(is_confined=True), Seeding(), last_version="")
    with pytest.raises(ValueError, match="CRAWLCTL_FILE_ROOTS"):
        ARCHIVE.runtime().open(replay.asked(is_confined=True))
    assert "seeds" in ARCHIVE.check(replay.asked(f"archive://{tmp_path}/elsewhere")).problems


async def test_archived_bytes_that_a_stage_reads_are_ingested(replay):
    replay.write("a.warc.gz", an_answer(headers=b"Content-Type: image/png\r\n", body=b"\x89PNG"))
    replay.pipeline = ReadsTypes("image/png")
    (outcome,) = (await replay.run()).values()
    assert (outcome.code, outcome.item.body, outcome.item.content_type) == ("200", b"\x89PNG", "image/png")
