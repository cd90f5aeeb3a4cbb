"""Proves that each kind of path of the filesystem connector ends with the expected outcome."""

import datetime as dt
import errno
import grp
import os
import pwd
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobs.connectors.repository.access import Access, Level
from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Document, Ending, hash_of
from jobs.connectors.repository.filesystem import tree as tree_module
from jobs.connectors.repository.filesystem.connector import FileConnector
from jobs.connectors.repository.filesystem.kind import FILE_SYSTEM
from jobs.connectors.repository.filesystem.paths import identifier_of, path_of
from jobs.connectors.repository.filesystem.specification import FileSpecification
from jobs.connectors.repository.kind import Seeding, SeedingFailed, SourceSettings
from tests.support.free_pace import FreePace
from tests.support.stages import ReadsTypes
from tests.support.tables import each_row

LONG_AGO = 1_600_000_000


@pytest.fixture
def threads():
    with ThreadPoolExecutor(2) as made:
        yield made


@pytest.fixture
def crawl(tmp_path, threads):
    return Crawl(tmp_path / "root", threads)


class Crawl:
    """A root directory with files, and a job that reads it."""

    def __init__(self, root, threads):
        root.mkdir()
        self.root, self._threads = root, threads

    def write(self, name, text="words", *, at=LONG_AGO):
        """Write a file with this modification time, by default a long time ago. Return its path."""
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        os.utime(file, (at, at))
        return file

    def asked(self, *, seeds=None, roots=None, configuration=None, **specification):
        return SourceSettings(
            configuration={"roots": roots or [str(self.root)], **(configuration or {})},
            specification=specification,
            seeds=seeds or [identifier_of(os.fsencode(self.root))],
        )

    async def process(self, path, *, before=None, asked=None, failures=0, pipeline=None, **specification):
        """Return the outcome for one path. `before` is its outcome in the run before."""
        identifier = identifier_of(os.fsencode(self.root / path))
        document = Document(
            hash=hash_of(identifier),
            identifier=identifier,
            depth=0,
            redirects=0,
            version=before.version if before else "",
            validators=before.validators if before else "",
            failures=failures,
            failing_for=0.0,
        )
        connector = FileConnector(FileSpecification.read(asked or self.asked(**specification)), threads=self._threads)
        activity = Activity(document, "1", pipeline=pipeline)
        await connector.process(document, activity, FreePace())
        return activity.outcome


def named(outcome):
    return [os.fsdecode(path_of(reference.identifier)).rpartition("/")[2] for reference in outcome.references]


async def test_the_origination_date_of_a_file_is_the_time_of_its_last_change(crawl):
    crawl.write("a/b.txt")
    moment = dt.datetime.fromtimestamp(LONG_AGO, dt.UTC)

    first = await crawl.process("a/b.txt")
    unchanged = await crawl.process("a/b.txt", before=first)
    directory = await crawl.process("a")

    assert (first.originated_at, unchanged.code, unchanged.originated_at) == (moment, "UNCHANGED", moment)
    # A directory has no origination date: its age counts from the time when it was read.
    assert directory.originated_at is None


async def test_a_directory_names_its_entries_as_its_children(crawl):
    crawl.write("b.txt")
    crawl.write("a/c.txt")

    outcome = await crawl.process(crawl.root)

    assert (outcome.ending, outcome.code, outcome.removes) == (Ending.EXCLUDED, "DIRECTORY", True)
    assert [(Path(os.fsdecode(path_of(r.identifier))), r.link_type) for r in outcome.references] == [
        (crawl.root / "a", "child"),
        (crawl.root / "b.txt", "child"),
    ]


async def test_a_text_file_is_ingested_with_its_name(crawl):
    crawl.write("notes.txt", "Some words.\n")

    outcome = await crawl.process("notes.txt")

    assert (outcome.ending, outcome.code, outcome.requested) == (Ending.INDEXED, "OK", True)
    content = outcome.content
    assert (content.title, content.text, content.content_type) == ("notes.txt", "Some words.", "text/plain")
    assert content.url == outcome.document.identifier
    assert [(one.activity, one.result_code, one.bytes) for one in outcome.records] == [("fetch", "OK", 12)]


async def test_an_html_file_is_read_as_a_page_and_its_links_are_not_followed(crawl):
    crawl.write(
        "page.html", "<html lang=en><title>A page</title><meta name=robots content=noindex><p>Words <a href=b>b</a>"
    )

    outcome = await crawl.process("page.html")

    assert (outcome.content.title, outcome.content.text, outcome.content.language) == ("A page", "Words b", "en")
    assert outcome.references == []


@pytest.mark.parametrize(
    ("body", "code"),
    [(b"\x89PNG\r\n\x1a\n", "NOT_TEXT"), (b"\x00\x01\x02" * 100, "NOT_TEXT"), (b"", "OK"), (b"x" * 101, "TOO_LARGE")],
)
async def test_binary_or_too_large_documents_leave_the_outputs(crawl, body, code):
    crawl.write("file", body)

    outcome = await crawl.process("file", max_bytes=100) if code == "TOO_LARGE" else await crawl.process("file")

    assert (outcome.code, outcome.removes) == (code, code != "OK")


async def test_a_file_of_unchanged_size_and_time_is_not_read(crawl):
    crawl.write("a")
    first = await crawl.process("a")
    (crawl.root / "a").chmod(0)

    again = await crawl.process("a", before=first)

    # The user root may read files without any permission.
    assert (again.ending, again.code) == (Ending.UNCHANGED, "UNCHANGED") or os.geteuid() != 0
    assert again.bytes_read == 0
    assert again.references is None


async def test_a_file_with_a_new_time_and_equal_content_is_unchanged(crawl):
    crawl.write("a")
    first = await crawl.process("a")

    crawl.write("a", at=LONG_AGO + 5)
    again = await crawl.process("a", before=first)

    assert (again.ending, again.code) == (Ending.UNCHANGED, "OK_UNCHANGED")
    assert again.validators not in {"", first.validators}


async def test_a_replaced_file_of_the_same_size_and_time_is_noticed(crawl):
    crawl.write("a", "one")
    first = await crawl.process("a")

    crawl.write("b", "two")
    (crawl.root / "b").rename(crawl.root / "a")

    assert (await crawl.process("a", before=first)).ending == Ending.INDEXED


async def test_a_file_that_was_written_just_now_is_read_again_next_time(crawl):
    (crawl.root / "a").write_text("one")

    first = await crawl.process("a")

    assert (first.ending, first.validators) == (Ending.INDEXED, "")


async def test_a_file_that_changes_while_it_is_read_is_retried_and_then_fails(crawl, monkeypatch):
    crawl.write("log", "x" * 3000)
    real_read = os.read

    def read_while_it_grows(opened, count):
        with (crawl.root / "log").open("ab") as log:
            log.write(b"more")
        return real_read(opened, count)

    monkeypatch.setattr(tree_module.os, "read", read_while_it_grows)

    first = await crawl.process("log")
    last = await crawl.process("log", failures=2)

    assert (first.ending, first.code) == (Ending.RETRY, "CHANGING")
    assert (last.ending, last.removes) == (Ending.FAILED, False)


async def test_a_file_has_the_access_of_its_permissions_and_folders(crawl):
    file = crawl.write("a/b.txt")
    crawl.root.chmod(0o755)
    file.parent.chmod(0o710)
    file.chmod(0o640)
    owner, group = pwd.getpwuid(file.stat().st_uid).pw_name, grp.getgrgid(file.stat().st_gid).gr_name
    mine = Level((f"user:{owner}", group))
    share = {"share_allow": ["net"], "share_deny": ["guests"]}

    open_one = await crawl.process("a/b.txt")
    alone = await crawl.process("a/b.txt", configuration={"access": "files"})
    inside = await crawl.process("a/b.txt", configuration={"access": "folders", **share})
    file.chmod(0o644)
    public = await crawl.process("a/b.txt", configuration={"access": "files"})
    named_public = await crawl.process("a/b.txt", configuration={"access": "files", "everyone": "all"})

    def scoped(access):
        return access.scoped("")

    assert open_one.content.access == public.content.access == Access()
    assert alone.content.access == scoped(Access(mine))
    # The root is open to all users, so it counts as a parent without tokens.
    assert inside.content.access == scoped(Access(mine, (mine,), Level(("net",), ("guests",))))
    assert named_public.content.access == scoped(Access(Level((*mine.allow, "all"))))


async def test_changed_permissions_alone_write_a_file_again(crawl):
    file = crawl.write("a/b.txt")
    file.chmod(0o640)
    fields = {"configuration": {"access": "folders"}}
    first = await crawl.process("a/b.txt", **fields)
    again = await crawl.process("a/b.txt", before=first, **fields)
    at = file.stat().st_mtime_ns

    file.chmod(0o600)
    narrowed = await crawl.process("a/b.txt", before=again, **fields)
    file.parent.chmod(0o700)
    closed = await crawl.process("a/b.txt", before=narrowed, **fields)
    last = await crawl.process("a/b.txt", before=closed, **fields)

    assert file.stat().st_mtime_ns == at
    assert [one.code for one in (first, again, narrowed, closed, last)] == ["OK", "UNCHANGED", "OK", "OK", "UNCHANGED"]
    assert len({one.content.access for one in (first, narrowed, closed)}) == 3


async def test_an_access_control_list_of_a_file_is_read(crawl):
    file = crawl.write("a/b.txt")
    file.chmod(0o600)
    os.setxattr(
        file,
        "system.posix_acl_access",
        acl((1, 6, 0), (2, 4, 4_000_001), (4, 0, 0), (8, 4, 4_000_002), (16, 4, 0), (32, 0, 0)),
    )

    outcome = await crawl.process("a/b.txt", configuration={"access": "files"})

    allow = set(outcome.content.access.document.allow)
    assert {":user:4000001", ":4000002"} < allow
    assert f":{grp.getgrgid(file.stat().st_gid).gr_name}" not in allow


def acl(*entries):
    """Return an access control list as its file system stores it."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


async def test_a_document_whose_path_is_missing_no_longer_exists(crawl):
    crawl.write("file")

    for path in ("nothing", "file/below"):
        outcome = await crawl.process(path)
        assert (outcome.ending, outcome.code, outcome.removes) == (Ending.FAILED, "NOT_FOUND", True)


async def test_a_missing_root_removes_nothing(crawl):
    crawl.write("a")
    first = await crawl.process("a")
    crawl.root.rename(crawl.root.with_name("unmounted"))

    outcome = await crawl.process("a", before=first)
    last = await crawl.process("a", before=first, failures=2)

    assert (outcome.ending, outcome.code) == (Ending.RETRY, "NO_ROOT")
    assert (last.ending, last.removes, last.version) == (Ending.FAILED, False, first.version)


async def test_an_empty_mount_point_of_a_missing_disk_removes_nothing(crawl):
    crawl.write("d/a")
    first = await crawl.process("d/a")
    crawl.root.rename(crawl.root.with_name("disk"))
    crawl.root.mkdir()

    outcomes = [await crawl.process(path, before=first, failures=2) for path in ("d/a", "d")]
    crawl.write("another")
    removed = await crawl.process("d/a", before=first)

    assert [(outcome.code, outcome.removes, outcome.references) for outcome in outcomes] == [
        ("NO_ROOT", False, None)
    ] * 2
    assert (removed.code, removed.removes) == ("NOT_FOUND", True)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
async def test_forbidden_documents_fail_and_stay_in_the_outputs(crawl):
    crawl.write("a").chmod(0)
    (crawl.root / "d").mkdir(0)

    for path in ("a", "d"):
        outcome = await crawl.process(path)
        assert (outcome.ending, outcome.code, outcome.removes) == (Ending.FAILED, "FORBIDDEN", False)


async def test_a_forbidden_file_leaves_the_outputs_if_permissions_are_read(crawl, monkeypatch):
    file = crawl.write("a.txt")
    fields = {"configuration": {"access": "files"}}
    first = await crawl.process("a.txt", **fields)
    real = os.open

    def refused(name, *arguments, **more):
        if name == os.fsencode(file.name):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(name, *arguments, **more)

    monkeypatch.setattr(tree_module.os, "open", refused)
    outcome = await crawl.process("a.txt", before=first, **fields)

    assert (outcome.code, outcome.ending, outcome.removes) == ("FORBIDDEN", Ending.EXCLUDED, True)
    # A folder that cannot be listed keeps its links.
    assert outcome.references is None


async def test_a_forbidden_file_has_the_same_result_code_for_every_user(crawl, monkeypatch):
    crawl.write("a")

    def refuse(*_arguments, **_facts):
        raise PermissionError(13, "no")

    monkeypatch.setattr(tree_module, "_read", refuse)

    assert (await crawl.process("a")).code == "FORBIDDEN"


async def test_pipes_and_sockets_are_neither_listed_nor_opened(crawl, monkeypatch):
    os.mkfifo(crawl.root / "pipe")
    monkeypatch.chdir(crawl.root)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")

        assert named(await crawl.process(crawl.root)) == []
        for path in ("pipe", "socket"):
            outcome = await crawl.process(path)
            assert (outcome.code, outcome.removes) == ("SPECIAL_FILE", True)


async def test_symbolic_links_are_followed_only_on_request(crawl):
    crawl.write("real")
    (crawl.root / "link").symlink_to("real")

    assert named(await crawl.process(crawl.root)) == ["real"]
    assert (await crawl.process("link")).code == "SYMLINK"


async def test_a_followed_link_means_the_document_of_its_target(crawl):
    crawl.write("d/real")
    (crawl.root / "link").symlink_to("d/real")
    (crawl.root / "loop").symlink_to(".")
    (crawl.root / "dangling").symlink_to("nowhere")
    (crawl.root / "eternal").symlink_to("eternal")

    outcome = await crawl.process(crawl.root, follow_links=True)

    assert named(outcome) == ["d", "real"]
    assert named(await crawl.process("link", follow_links=True)) == ["real"]


async def test_no_link_leads_out_of_the_root(crawl, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key").write_text("key")
    (crawl.root / "link").symlink_to(tmp_path / "secret")
    (crawl.root / "links").symlink_to(tmp_path / "secrets")

    assert named(await crawl.process(crawl.root, follow_links=True)) == []
    assert (await crawl.process("link", follow_links=True)).references == []
    # A symbolic link may replace a directory after the parent of the directory was read.
    assert (await crawl.process("links/key", follow_links=True)).code in {"NOT_FOUND", "SYMLINK"}
    outside = await crawl.process(str(tmp_path / "secret"))
    assert (outside.code, outside.removes) == ("OUT_OF_ROOT", True)


async def test_the_path_of_a_root_may_contain_a_link(crawl, tmp_path):
    crawl.write("d/a")
    (crawl.root / "link").symlink_to("d/a")
    (tmp_path / "alias").symlink_to(crawl.root)
    alias = str(tmp_path / "alias")
    asked = crawl.asked(roots=[alias], seeds=[f"file://{alias}"], follow_links=True)

    outcome = await crawl.process(alias, asked=asked)

    assert [path_of(r.identifier).decode() for r in outcome.references] == [f"{alias}/d", f"{alias}/d/a"]


async def test_file_names_that_are_not_utf_8_are_processed(crawl):
    name = os.fsdecode(b"caf\xe9 \xff.txt")
    crawl.write(name, "words")

    (reference,) = (await crawl.process(crawl.root)).references
    outcome = await crawl.process(name)

    assert reference.identifier.endswith("/caf%E9%20%FF.txt")
    assert (outcome.code, outcome.content.title) == ("OK", "caf� �.txt")
    outcome.content.title.encode()


async def test_a_known_document_that_the_rules_now_exclude_leaves_the_outputs(crawl):
    crawl.write("old/a")
    first = await crawl.process("old/a")

    outcome = await crawl.process("old/a", before=first, exclude=["old"])

    assert (outcome.ending, outcome.code, outcome.removes) == (Ending.EXCLUDED, "EXCLUDED", True)
    assert (await crawl.process("old", exclude=["old"])).code == "EXCLUDED"


async def test_a_large_directory_is_divided_among_a_few_bins(crawl):
    for number in range(100):
        crawl.write(str(number))

    bins = {reference.bin for reference in (await crawl.process(crawl.root)).references}

    assert bins == {f"{crawl.root}:{part}" for part in range(8)}


# --- Checks of a configuration ---------------------------------------------------------------------


def check(**facts):
    return FILE_SYSTEM.check(SourceSettings(**facts)).problems


def test_seeds_outside_of_the_roots_are_refused():
    roots = {"roots": ["/srv/data"]}

    assert check(configuration=roots, seeds=["file:///srv/data/x"]) == {}
    (sentence,) = check(configuration=roots, seeds=["file:///srv/database"])["seeds"]
    assert "outside the folders that this connection may read: /srv/data" in sentence
    assert "seeds" in check(configuration=roots, seeds=["file:///srv/data/../x"])
    assert "seeds" in check(configuration=roots, seeds=["http://a.example/"])


@each_row(
    ("configuration", "specification", "field"),
    [
        ({}, {}, "roots"),
        ({"roots": []}, {}, "roots"),
        ({"roots": ["srv"]}, {}, "roots"),
        ({"roots": ["/srv/.."]}, {}, "roots"),
        ({"roots": "/srv"}, {}, "roots"),
        ({"roots": ["/srv"]}, {"roots": ["/"]}, "roots"),
        ({"roots": ["/srv"]}, {"max_bytes": 0}, "max_bytes"),
        ({"roots": ["/srv"]}, {"hidden": 1}, "hidden"),
        ({"roots": ["/srv"]}, {"include": ["regex:("]}, "specification"),
        ({"roots": ["/srv"]}, {"scope": "host"}, "scope"),
    ],
)
def test_an_invalid_option_of_a_file_job_is_refused_by_name(configuration, specification, field):
    assert list(check(configuration=configuration, specification=specification)) == [field]


def test_the_status_of_a_connection_names_a_missing_root(tmp_path):
    assert FILE_SYSTEM.status({"roots": [str(tmp_path)]}) == ""
    assert "No such file" in FILE_SYSTEM.status({"roots": [str(tmp_path), str(tmp_path / "x")]})


def test_a_run_does_not_start_while_the_root_is_missing(tmp_path):
    source = SourceSettings(configuration={"roots": [str(tmp_path / "x")]}, seeds=[f"file://{tmp_path}/x/y"])

    with pytest.raises(SeedingFailed, match="No such file"):
        FILE_SYSTEM.seed(source, Seeding(), last_version="")


async def test_a_file_has_its_owner_and_date_as_metadata(crawl):
    crawl.write("a.html", "<meta name=author content=Ada>words")
    metadata = (await crawl.process("a.html")).content.metadata
    assert metadata == {
        "author": ("Ada",),
        "owner": (pwd.getpwuid(os.getuid()).pw_name,),
        "last_modified": ("2020-09-13T12:26:40+00:00",),
    }


async def test_a_file_that_a_stage_reads_is_ingested_with_its_bytes(crawl):
    crawl.write("a.docx", b"PK\x03\x04")
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
    outcome = await crawl.process("a.docx", pipeline=ReadsTypes(kind))
    assert (outcome.ending, outcome.code) == (Ending.INDEXED, "OK")
    assert (outcome.item.body, outcome.item.content_type, outcome.item.title) == (b"PK\x03\x04", kind, "a.docx")
    assert (await crawl.process("a.docx")).code == "NOT_TEXT"


async def test_an_e_mail_is_read_by_a_stage_although_it_is_a_text(crawl):
    letter = b"From: ann@example.org\nSubject: news\n\nwords"
    crawl.write("a.eml", letter)
    outcome = await crawl.process("a.eml", pipeline=ReadsTypes("message/rfc822"))
    assert (outcome.item.body, outcome.item.content_type, outcome.item.text) == (letter, "message/rfc822", "")
    assert (await crawl.process("a.eml")).content.text == letter.decode()
