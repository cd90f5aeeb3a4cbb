"""Proves that real processes notice each addition, change and deletion in trees of files, under names of all kinds."""

import os
from pathlib import Path

import pytest
from django.utils import timezone

from crawlctl.access.roles import ADMINISTRATOR
from jobs.models import Job, OutputConnection, RepositoryConnection
from jobs.verbs import connections, control, editing
from jobs.verbs.seeds import SeedWanted
from nodes.database.clock import read_clock
from tests.support.api import client_of
from tests.support.factories import NOON, make_output
from tests.support.processes import ended, held_by, read_lines, wait_for


@pytest.fixture
def tree(tmp_path):
    """Return a root with one directory and three files, as in ManifoldCF's SanityTester."""
    root = tmp_path / "tree"
    (root / "sub").mkdir(parents=True)
    for name in ("one.txt", "two.txt", "sub/three.txt"):
        (root / name).write_text(f"This is {name}.")
    return root


def crawl(machine, *arguments, output=None):
    target = f"jsonl:{output}" if output else "null"
    # Each test has its own directory for the lengths of outputs, because tests in parallel use the same ids of outputs.
    own = {"CRAWLCTL_VAR": str(machine.directory / "var")}
    return ended(machine.start("crawl", *arguments, "--output", target, "--json", **own))


def url(path):
    return f"file://{path}"


def test_a_tree_is_indexed_and_its_changes_are_followed(machine, tree):
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


def test_a_deleted_output_is_reported_and_written_again_on_request(machine, tree):
    output = machine.directory / "files.jsonl"
    crawl(machine, url(tree), "--job", "tree", output=output)
    documents = held_by(output)
    output.unlink()

    unchanged = crawl(machine, "--job", "tree", output=output)

    assert (unchanged.code, unchanged.counts["unchanged"]) == (0, 3)
    assert f"Output jsonl:{output} lost lines on " in unchanged.err
    assert not output.exists()

    connections.index_again(OutputConnection.objects.get().pk, made_by="a test", now=read_clock())
    again = crawl(machine, "--job", "tree", output=output)

    assert "lost lines" not in again.err
    assert held_by(output) == documents


def test_entries_without_a_readable_name_or_content_do_not_stop_a_crawl(machine, tree):
    odd = os.fsencode(tree) + b"/caf\xe9.txt"
    Path(os.fsdecode(odd)).write_text("words")
    (tree / "line\nbreak.txt").write_text("words")
    (tree / "loop").symlink_to(tree)
    os.mkfifo(tree / "pipe")

    crawled = crawl(machine, url(tree))

    assert (crawled.code, crawled.codes) == (0, {"DIRECTORY": 2, "OK": 5})


def test_options_of_web_crawls_and_invalid_paths_are_refused(machine, tree):
    refused = {
        "scope": crawl(machine, url(tree), "--scope", "host"),
        "delay": crawl(machine, url(tree), "--delay", "1", "--max-depth", "2"),
        "mixed": crawl(machine, url(tree), "http://127.0.0.1:9/"),
        "both": crawl(machine, url(tree), f"archive://{tree}"),
        "nowhere": crawl(machine, url(tree / "nowhere")),
        "remote": crawl(machine, "file://server/share"),
        "dots": crawl(machine, f"file://{tree}/../x"),
        "rule": crawl(machine, url(tree), "--include", "regex:("),
    }

    assert {name: crawled.code for name, crawled in refused.items()} == dict.fromkeys(refused, 2)
    errors = {name: crawled.err for name, crawled in refused.items()}
    assert "--scope: only for web sources" in errors["scope"]
    assert "--max-depth, --delay" in errors["delay"]
    assert "separate crawls" in errors["mixed"]
    assert "separate crawls" in errors["both"]
    assert "No such file" in errors["nowhere"]
    assert "another machine" in errors["remote"]
    assert "has .." in errors["dots"]
    assert machine.database.value("SELECT count(*) FROM jobs_job") == 0


def test_manifoldcfs_sanity_test_counts_5_6_6_6_5_and_0_documents(cluster, tree):
    """
    The steps of SanityTester: a full run, three minimal runs (after an addition, a change, a deletion), a full run,
    deletion of the job.
    """
    cluster.start("runmanager", "runworker")
    connection = RepositoryConnection.objects.create(
        name="files", connector="filesystem", configuration={"roots": [str(tree)]}
    )
    output = make_output(cluster.output)
    job = editing.create_job(
        name="tree", repository=connection, outputs=[output], seeds=[SeedWanted((url(tree),))],
        specification={}, made_by="a test", now=NOON,
    ).job  # fmt: skip

    def documents():
        """Return the number of documents of the job that its source has, counted as ManifoldCF does."""
        return cluster.database.value("SELECT count(*) FROM jobs_queueitem WHERE result_code <> 'NOT_FOUND'")

    cluster.run(job)
    assert documents() == 5

    (tree / "four.txt").write_text("This is new.")
    cluster.run(job, minimal=True)
    assert documents() == 6
    assert len(held_by(cluster.output)) == 4

    written = len(read_lines(cluster.output))
    (tree / "one.txt").write_text("This is other.")
    cluster.run(job, minimal=True)
    assert documents() == 6
    assert [line["url"] for line in read_lines(cluster.output, since=written)] == [url(tree / "one.txt")]

    (tree / "two.txt").unlink()
    cluster.run(job, minimal=True)
    assert documents() == 6
    assert len(held_by(cluster.output)) == 4

    cluster.run(job)
    assert documents() == 5
    assert held_by(cluster.output) == {url(tree / name) for name in ("one.txt", "four.txt", "sub/three.txt")}

    control.delete(job.pk, made_by="a test", now=timezone.now())
    wait_for(lambda: not Job.objects.exists(), saying="the job is deleted")
    assert held_by(cluster.output) == set()


def test_manifoldcfs_api_sanity_test_counts_5_6_6_and_5_documents(cluster, tree):
    """
    The steps of APISanityTester: those of SanityTester with full runs only, and with every request through the API.
    """
    cluster.start("runmanager", "runworker")
    api = client_of(ADMINISTRATOR)

    def make(kind, **facts):
        made = api.post(f"/api/v1/{kind}/", facts)
        assert made.status_code == 201, made.content
        return made.json()["id"]

    files = make("repositories", name="files", connector="filesystem", configuration={"roots": [str(tree)]})
    output = make("outputs", name="lines", connector="jsonl", configuration={"path": str(cluster.output)})
    job = make("jobs", name="tree", repository=files, outputs=[output], seeds=[{"urls": [url(tree)]}])

    def documents_after_a_run():
        assert api.post(f"/api/v1/jobs/{job}/start/").status_code == 200
        wait_for(lambda: api.get(f"/api/v1/jobs/{job}/").json()["phase"] == "inactive", saying="the run has ended")
        return cluster.database.value("SELECT count(*) FROM jobs_queueitem WHERE result_code <> 'NOT_FOUND'")

    assert documents_after_a_run() == 5
    (tree / "four.txt").write_text("This is new.")
    assert documents_after_a_run() == 6
    (tree / "one.txt").write_text("This is other.")
    assert documents_after_a_run() == 6
    (tree / "two.txt").unlink()
    assert documents_after_a_run() == 5

    history = api.get("/api/v1/reports/history/", {"repository": files})
    assert history.status_code == 200, history.content
    assert api.post(f"/api/v1/jobs/{job}/delete/").status_code in {200, 202}
    wait_for(lambda: api.get(f"/api/v1/jobs/{job}/").status_code == 404, saying="the job is deleted")
