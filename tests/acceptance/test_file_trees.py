"""Trees of files, crawled by real processes: what was added, changed and deleted, and names of all kinds."""

import os
from pathlib import Path

import pytest

from tests.processes import ended, held_by, read_lines


@pytest.fixture
def tree(tmp_path):
    """A root with one directory and three files: ManifoldCF's SanityTester."""
    root = tmp_path / "tree"
    (root / "sub").mkdir(parents=True)
    for name in ("one.txt", "two.txt", "sub/three.txt"):
        (root / name).write_text(f"This is {name}.")
    return root


def crawl(machine, *arguments, output=None):
    target = f"jsonl:{output}" if output else "null"
    return ended(machine.start("crawl", *arguments, "--output", target, "--json"))


def url(path):
    return f"file://{path}"


def test_a_tree_is_indexed_and_kept_in_step(machine, tree):
    output = machine.directory / "files.jsonl"

    first = crawl(machine, url(tree), "--job", "tree", output=output)
    assert (first.code, first.codes) == (0, {"DIRECTORY": 2, "OK": 3})
    assert held_by(output) == {url(tree / name) for name in ("one.txt", "two.txt", "sub/three.txt")}

    (tree / "four.txt").write_text("This is new.")
    (tree / "one.txt").write_text("This is other.")
    (tree / "two.txt").unlink()
    written = len(read_lines(output))
    second = crawl(machine, "--job", "tree", output=output)

    assert (second.code, second.counts["indexed"], second.counts["deleted"]) == (0, 2, 1)
    assert {(line["action"], line["url"]) for line in read_lines(output, since=written)} == {
        ("add", url(tree / "four.txt")),
        ("add", url(tree / "one.txt")),
        ("delete", url(tree / "two.txt")),
    }


def test_what_has_no_readable_name_or_content_does_not_stop_a_crawl(machine, tree):
    odd = os.fsencode(tree) + b"/caf\xe9.txt"
    Path(os.fsdecode(odd)).write_text("words")
    (tree / "line\nbreak.txt").write_text("words")
    (tree / "loop").symlink_to(tree)
    os.mkfifo(tree / "pipe")

    crawled = crawl(machine, url(tree))

    assert (crawled.code, crawled.codes) == (0, {"DIRECTORY": 2, "OK": 5})


def test_options_of_the_web_and_places_that_cannot_be_are_refused(machine, tree):
    refused = {
        "scope": crawl(machine, url(tree), "--scope", "host"),
        "delay": crawl(machine, url(tree), "--delay", "1", "--max-depth", "2"),
        "mixed": crawl(machine, url(tree), "http://127.0.0.1:9/"),
        "nowhere": crawl(machine, url(tree / "nowhere")),
        "remote": crawl(machine, "file://server/share"),
        "dots": crawl(machine, f"file://{tree}/../x"),
        "rule": crawl(machine, url(tree), "--include", "regex:("),
    }

    assert {name: crawled.code for name, crawled in refused.items()} == dict.fromkeys(refused, 2)
    said = {name: crawled.err for name, crawled in refused.items()}
    assert "--scope: that is for the web" in said["scope"]
    assert "--max-depth, --delay" in said["delay"]
    assert "two sources" in said["mixed"]
    assert "No such file" in said["nowhere"]
    assert "another machine" in said["remote"]
    assert "has .." in said["dots"]
    assert machine.database.value("SELECT count(*) FROM jobs_job") == 0
