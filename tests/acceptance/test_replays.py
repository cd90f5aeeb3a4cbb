"""Proves that a crawl of archives rebuilds an index without the web, and follows changes of the archive files."""

import pytest

from jobs.archive.records import Format
from tests.support.processes import ended, held_by, read_lines

FACTS = ("url", "title", "description", "text", "content_type", "language")


def contents_of(output):
    """Return the facts of each document that a JSON lines file holds."""
    documents = {line["url"]: line for line in read_lines(output)}
    return {url: [line.get(fact) for fact in FACTS] for url, line in documents.items() if line["action"] == "add"}


def replay(machine, *arguments, output):
    # Each test has its own directory for the lengths of outputs, because tests in parallel use the same ids of outputs.
    own = {"CRAWLCTL_VAR": str(machine.directory / "var")}
    return ended(machine.start("crawl", *arguments, "--output", f"jsonl:{output}", "--json", **own))


@pytest.mark.parametrize("form", list(Format))
def test_a_replayed_archive_gives_the_documents_of_the_crawl(machine, serve, form):
    site = serve(pages=80, hosts=2, traps=3)
    root, output = machine.directory / "archive", machine.directory / "pages.jsonl"
    given = {"CRAWLCTL_ARCHIVE_ROOT": str(root)}
    for arguments in ((site.start_url, "--scope", "any", "--archive", form), ()):
        crawl = machine.crawl(*arguments, "--job", "site", output=output, **given)
        assert (crawl.code, held_by(output)) == (0, site.documents), crawl.err
    requests = site.lines

    replayed = machine.directory / "replayed.jsonl"
    first = replay(machine, f"archive://{root}", "--job", "replay", output=replayed)

    assert (first.code, first.counts["failed"]) == (0, first.codes["404"]), first.facts
    assert contents_of(replayed) == contents_of(output)
    written = len(read_lines(replayed))

    again = replay(machine, "--job", "replay", output=replayed)

    assert (again.code, again.counts["indexed"], again.counts["unchanged"]) == (0, 0, 80), again.err
    assert len(read_lines(replayed)) == written
    assert site.lines == requests


def test_a_replay_follows_files_that_grow_and_vanish(machine, serve):
    site = serve(pages=30, hosts=1)
    root, output = machine.directory / "archive", machine.directory / "replayed.jsonl"
    crawl = machine.crawl(site.start_url, "--archive", "warc", "--workers", 1, CRAWLCTL_ARCHIVE_ROOT=str(root))
    assert crawl.code == 0, crawl.err
    (old,) = root.rglob("*.warc.gz")
    whole = old.read_bytes()
    cut = whole.index(b"\x1f\x8b\x08", len(whole) // 2)
    old.write_bytes(whole[:cut])
    first = replay(machine, f"archive://{root}", "--job", "replay", output=output)
    assert 0 < len(held_by(output)) < 30

    old.write_bytes(whole)
    grown = replay(machine, "--job", "replay", output=output)

    assert held_by(output) == site.documents
    assert grown.counts["unchanged"] == first.counts["indexed"]
    (root / "new.barc").write_bytes(b"")
    old.rename(root / "gone")

    guarded = replay(machine, "--job", "replay", output=output)

    assert "allow-removals" in guarded.err
    assert held_by(output) == site.documents
    for arguments in (("job", "replay", "allow-removals"), ("crawl", "--resume", "--job", "replay", "--json")):
        command = machine.start(*arguments, CRAWLCTL_VAR=str(machine.directory / "var"))
        assert command.wait() == 0, command.err
    assert held_by(output) == set()
