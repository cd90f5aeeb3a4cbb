"""Proves that a JSON lines file has only complete lines, however writers interleave, die, or run out of space."""

import datetime as dt
import errno
import fcntl
import json
import multiprocessing
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from jobs.connectors.output import jsonl
from jobs.connectors.output.base import Entry, OutputError
from jobs.connectors.output.jsonl import JsonLinesConfiguration, JsonLinesOutput
from jobs.connectors.output.registry import check_configuration, parse_output
from jobs.connectors.repository.base import Content
from jobs.connectors.schema import BadSpecification
from tests.support.tables import each_row

NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)


class LivingTransaction:
    """A stand-in for the cursor of a flush whose transaction is alive."""

    def execute(self, query):
        assert query == "SELECT 1"


class EndedTransaction:
    """A stand-in for the cursor of a flush whose node was marked as failed while it was frozen."""

    def execute(self, query):
        raise ConnectionAbortedByServer


class ConnectionAbortedByServer(Exception):
    pass


def output_at(path: Path) -> JsonLinesOutput:
    return JsonLinesOutput(id=1, configuration=JsonLinesConfiguration(path=str(path)))


def entry(url: str = "http://a.example/", text: str = "some words") -> Entry:
    content = Content(url, "A title", "", text, "text/html", "en", metadata={"author": ("Ada", "Bob")})
    return Entry(hash="0" * 32, url=url, content=content, version="1:v", fetched_at=NOON)


def gone(url: str) -> Entry:
    return Entry(hash="0" * 32, url=url, content=None, version="", fetched_at=NOON)


def add(output: JsonLinesOutput, *entries: Entry) -> None:
    output.add_or_replace(LivingTransaction(), entries)


def lines_of(path: Path) -> list[dict[str, str]]:
    data = path.read_bytes()
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out.jsonl"


def test_a_line_has_all_facts_of_a_document(path):
    add(output_at(path), entry("http://a.example/x", text="text of x"))

    assert lines_of(path) == [
        {
            "action": "add",
            "url": "http://a.example/x",
            "title": "A title",
            "description": "",
            "text": "text of x",
            "content_type": "text/html",
            "language": "en",
            "metadata": {"author": ["Ada", "Bob"]},
            "fetched_at": "2030-01-01T12:00:00+00:00",
            "version": "1:v",
        }
    ]


def test_the_last_line_of_an_address_is_the_valid_one(path):
    output = output_at(path)

    add(output, entry("http://a.example/1", text="old"), entry("http://a.example/2"))
    add(output, entry("http://a.example/1", text="new"))
    output.remove(LivingTransaction(), [gone("http://a.example/2")])

    last = {line["url"]: line for line in lines_of(path)}
    assert last["http://a.example/1"]["text"] == "new"
    assert last["http://a.example/2"]["action"] == "delete"
    assert set(last["http://a.example/2"]) == set(last["http://a.example/1"])


@pytest.mark.parametrize(
    "text", ["a\nb\r\nc", "a\x0bb\x0cc\x1cd\x1ee", "a\x85b\u2028c\u2029d", "nul \0 and ünïcödé 日本"]
)
def test_no_character_of_a_text_ends_its_line(path, text):
    add(output_at(path), entry(text=text))

    (line,) = path.read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["text"] == text


def test_text_that_is_not_unicode_is_still_written_as_utf_8(path):
    add(output_at(path), entry(text="half a pair: \ud83d"))

    assert lines_of(path)[0]["text"] == "half a pair: ?"


# --- Torn tails ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [1, 5, 10, 40, -1])
def test_a_torn_line_is_cut_off_by_the_next_append(path, kept):
    output = output_at(path)
    add(output, entry("http://a.example/whole"))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:kept])

    add(output, entry("http://a.example/next"))

    assert [line["url"] for line in lines_of(path)] == ["http://a.example/whole", "http://a.example/next"]


def test_a_torn_line_is_cut_off_at_any_length(path):
    output = output_at(path)
    add(output, entry("http://a.example/whole"))
    with path.open("ab") as file:
        file.write(b'{"action":"add","text":"' + b"x" * 1_000_000)

    add(output, entry("http://a.example/next"))

    assert [line["url"] for line in lines_of(path)] == ["http://a.example/whole", "http://a.example/next"]


def test_nul_bytes_that_a_power_loss_left_at_the_end_are_cut_off(path):
    output = output_at(path)
    add(output, entry("http://a.example/whole"))
    with path.open("ab") as file:
        file.write(b"\0" * 4096)

    add(output, entry("http://a.example/next"))

    assert [line["url"] for line in lines_of(path)] == ["http://a.example/whole", "http://a.example/next"]


def test_an_unfinished_line_of_another_writer_is_not_cut_off(path):
    path.write_bytes(b"Dear diary,\nnobody shall cut off this line")

    with pytest.raises(OutputError, match="crawlctl did not write"):
        output_at(path).check()
    with pytest.raises(OutputError, match="crawlctl did not write"):
        add(output_at(path), entry())

    assert path.read_bytes() == b"Dear diary,\nnobody shall cut off this line"


# --- Several writers -----------------------------------------------------------------------------


def append_many(path: Path, name: str, flushes: int) -> None:
    output = output_at(path)
    for number in range(flushes):
        add(output, *(entry(f"http://{name}.example/{number}/{i}", text="x" * 5000) for i in range(20)))


def test_processes_that_append_at_the_same_time_leave_whole_lines(path):
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=append_many, args=(path, name, 20)) for name in ("a", "b", "c")]

    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)

    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    urls = [line["url"] for line in lines_of(path)]
    assert len(urls) == len(set(urls)) == 3 * 20 * 20
    # The lines of one flush are consecutive.
    flushes = [url.rsplit("/", 1)[0] for url in urls[::20]]
    assert len(flushes) == len(set(flushes))


@each_row("length", [1, 3])
def test_a_file_that_was_cut_and_grew_again_gives_no_wrong_text(path, length):
    output = output_at(path)
    urls = {letter * 32: f"http://{letter}.example/" for letter in "ab"}
    add(output, *(entry(url, text=f"first {url}") for url in urls.values()))
    assert [found.content.text for found in output.recall(urls)] == [f"first {url}" for url in urls.values()]

    os.truncate(path, 0)
    add(output, *(entry(url, text="second" * length) for url in reversed(urls.values())))
    with path.open("ab") as file:
        file.write(b'{"action":"add","url":"http://a.example/"\n')

    assert [found.content.text for found in output.recall(urls)] == ["second" * length] * 2


def test_a_writer_waits_for_a_free_file_and_gives_up_on_a_frozen_writer(path, monkeypatch):
    monkeypatch.setattr(jsonl, "_LOCK_SECONDS", 0.05)
    path.touch()
    with path.open("rb") as frozen:
        fcntl.flock(frozen, fcntl.LOCK_EX)

        with pytest.raises(OutputError, match="locked by another process"):
            add(output_at(path), entry())

    add(output_at(path), entry())
    assert len(lines_of(path)) == 1


def test_a_writer_whose_transaction_was_ended_meanwhile_writes_nothing(path):
    add(output_at(path), entry("http://a.example/of-the-successor"))
    before = path.read_bytes()

    with pytest.raises(ConnectionAbortedByServer):
        output_at(path).add_or_replace(EndedTransaction(), [entry("http://a.example/stale")])

    assert path.read_bytes() == before


# --- No space, no file ---------------------------------------------------------------------------


def test_a_batch_that_does_not_fit_is_returned_whole(path):
    add(output_at(path), entry("http://a.example/whole"))
    room = path.stat().st_size + 10_000
    limited = textwrap.dedent(f"""
        import resource, sys
        from pathlib import Path
        sys.path.insert(0, {str(Path.cwd())!r})
        from tests.unit.test_jsonl_output import add, entry, output_at
        from jobs.connectors.output.base import OutputError
        resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))
        try:
            add(output_at(Path({str(path)!r})), entry(text="short"), entry(text="x" * 20_000))
        except OutputError as error:
            print(error)
    """)

    ended = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, check=True)

    assert "largest file that this process may write" in ended.stdout
    assert [line["url"] for line in lines_of(path)] == ["http://a.example/whole"]


def test_the_check_accepts_a_writable_path_and_creates_no_file(path):
    output_at(path).check()

    assert not path.exists()


def make_directory(path: Path) -> Path:
    path.mkdir()
    return path


def make_pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def make_link(path: Path) -> Path:
    target = path.with_suffix(".target")
    target.touch()
    path.symlink_to(target)
    return path


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        (make_directory, "it is a directory"),
        (make_pipe, "not a regular file"),
        (make_link, "symbolic link"),
        (lambda path: path / "deeper.jsonl", "no directory"),
        (lambda _: Path("/dev/full"), "not a regular file"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_with_a_reason(path, place, sentence):
    output = output_at(place(path))

    with pytest.raises(OutputError, match=sentence):
        output.check()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_write_permission_is_refused(tmp_path):
    tmp_path.chmod(0o500)

    with pytest.raises(OutputError, match="nothing can be created"):
        output_at(tmp_path / "out.jsonl").check()


# --- Options of commands and connections ---------------------------------------------------------


def test_spellings_of_one_path_mean_one_output(tmp_path, monkeypatch):
    (tmp_path / "there").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)

    spelled = {parse_output(f"jsonl:{path}").name for path in ("x", "./x", "there/x", f"{tmp_path}/there/x")}

    assert spelled == {f"jsonl:{tmp_path.resolve()}/x"}


@each_row("text", ["search", "null"])
def test_outputs_without_configuration_are_named_by_their_connector(text):
    wanted = parse_output(text)

    assert (wanted.name, wanted.connector, wanted.configuration) == (text, text, {})


@each_row(
    "text",
    ["", "solr", "jsonl", "jsonl:", "jsonl:/", "jsonl:..", "jsonl:a\nb", "jsonl:" + "a" * 500, "search:x", "null:"],
)
def test_an_invalid_output_is_refused(text):
    with pytest.raises(BadSpecification):
        parse_output(text)


@each_row(
    ("connector", "configuration", "field"),
    [
        ("solr", {}, "connector"),
        ("search", {"path": "/x"}, "path"),
        ("jsonl", {}, "path"),
        ("jsonl", {"path": 7}, "path"),
        ("jsonl", {"path": "relative"}, "path"),
        ("jsonl", {"path": "/a\0b"}, "path"),
        ("jsonl", {"path": "/x", "mode": "w"}, "mode"),
        ("jsonl", ["/x"], "configuration"),
    ],
)
def test_an_invalid_configuration_is_refused_with_the_name_of_its_field(connector, configuration, field):
    with pytest.raises(BadSpecification) as refused:
        check_configuration(connector, configuration)

    assert refused.value.field == field


# --- The folder of a file ----------------------------------------------------------------------------


@pytest.fixture
def synced(monkeypatch):
    """Return the paths synced to disk in order: folders by fsync, files by fdatasync."""
    paths = []

    def noting(sync):
        def note(descriptor):
            sync(descriptor)
            paths.append(Path(f"/proc/self/fd/{descriptor}").readlink())

        return note

    monkeypatch.setattr(os, "fsync", noting(os.fsync))
    monkeypatch.setattr(os, "fdatasync", noting(os.fdatasync))
    return paths


def test_the_folder_of_a_new_file_is_synced_after_its_lines(tmp_path, synced):
    output = output_at(tmp_path / "pages.jsonl")

    add(output, entry())

    assert synced == [tmp_path / "pages.jsonl", tmp_path]


def test_the_folder_is_synced_once_for_each_file(tmp_path, synced):
    output = output_at(tmp_path / "pages.jsonl")
    add(output, entry())
    add(output, entry())
    assert synced.count(tmp_path) == 1

    (tmp_path / "pages.jsonl").rename(tmp_path / "old.jsonl")
    add(output, entry())

    assert synced.count(tmp_path) == 2


def test_a_file_whose_creator_was_killed_has_its_folder_synced(tmp_path, synced):
    (tmp_path / "pages.jsonl").touch()

    add(output_at(tmp_path / "pages.jsonl"), entry())

    assert tmp_path in synced


def test_a_folder_that_cannot_be_synced_fails_the_flush(tmp_path, monkeypatch):
    output = output_at(tmp_path / "pages.jsonl")

    def fail(descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    for _ in range(2):
        with pytest.raises(OutputError, match="input/output error"):
            add(output, entry())
