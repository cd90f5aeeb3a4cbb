"""
Proves with real processes that files of all kinds are read, and that a file that attacks its reader fails no other
file.
"""

import pytest

from jobs.models import Job, QueueItem
from jobs.verbs import editing
from nodes.database.clock import read_clock
from tests.support import files
from tests.support.processes import ended, read_lines

_PLUGIN = "tests.support.hostile_stage:HOSTILE"


@pytest.fixture
def tree(tmp_path, settings):
    settings.CRAWLCTL_TRANSFORMATIONS = (_PLUGIN,)
    root = tmp_path / "tree"
    root.mkdir()
    return root


def crawl(machine, *arguments):
    output = machine.directory / "files.jsonl"
    own = {
        "CRAWLCTL_VAR": str(machine.directory / "var"),
        "CRAWLCTL_TRANSFORMATIONS": _PLUGIN,
        "CRAWLCTL_EXTRACTION_SECONDS": "2",
    }
    return ended(machine.start("crawl", *arguments, "--job", "tree", "--output", f"jsonl:{output}", "--json", **own))


def crawl_with(machine, tree, *kinds):
    """Crawl the tree through stages of these kinds, and return the crawl and the lines of the output."""
    assert crawl(machine, f"file://{tree}").code == 0
    stages = [{"name": kind, "kind": kind} for kind in kinds]
    job = Job.objects.get(name="tree")
    editing.change_job(job.pk, pipeline={"stages": stages}, made_by="a test", now=read_clock())
    output = machine.directory / "files.jsonl"
    before = len(read_lines(output)) if output.exists() else 0
    return crawl(machine), {line["url"].rpartition("/")[2]: line for line in read_lines(output, since=before)}


def test_files_of_all_kinds_get_a_text_and_broken_files_get_a_reason(machine, tree):
    (tree / "a.pdf").write_bytes(files.pdf("Rye"))
    (tree / "b.docx").write_bytes(files.docx("Oats"))
    (tree / "c.odt").write_bytes(files.odt("Hay"))
    more = {"word/embeddings/e.pdf": files.pdf("Wheat")}
    (tree / "d.docx").write_bytes(files.docx("Barley", more=more))
    (tree / "f.txt").write_text("Plain")
    (tree / "g.pdf").write_bytes(files.pdf("x", is_encrypted=True))
    (tree / "h.docx").write_bytes(files.docx("x")[:-40])
    (tree / "i.png").write_bytes(b"\x89PNG\r\n\x1a\n")

    crawled, lines = crawl_with(machine, tree, "extract")

    assert crawled.codes == {"DIRECTORY": 1, "OK": 5, "EXTRACTION_FAILED": 2, "NOT_TEXT": 1}
    assert {name: line["text"].split()[0] for name, line in lines.items()} == {
        "a.pdf": "Rye",
        "b.docx": "Oats",
        "c.odt": "Hay",
        "d.docx": "Barley",
        # A part is a separate entry of the output.
        "d.docx#e.pdf": "Wheat",
        "f.txt": "Plain",
    }
    assert lines["a.pdf"]["metadata"]["author"] == ["Ada Author"]
    assert lines["c.odt"]["language"] == "de-AT"


def test_files_that_attack_their_reader_fail_and_other_files_are_read(machine, tree):
    for name in ("exit", "compute", "allocate", *"abcdefgh"):
        (tree / f"{name}.txt").write_text(name)

    crawled, lines = crawl_with(machine, tree, "hostile")

    assert crawled.codes == {"DIRECTORY": 1, "OK": 8, "EXTRACTION_FAILED": 3}
    assert sorted(lines) == [f"{name}.txt" for name in "abcdefgh"]
    failed = QueueItem.objects.filter(result_code="EXTRACTION_FAILED").values_list("identifier", flat=True)
    assert {name.rpartition("/")[2] for name in failed} == {"exit.txt", "compute.txt", "allocate.txt"}
