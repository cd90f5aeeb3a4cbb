"""Proves hop limits with real processes: ManifoldCF's HopcountTester, and later changes of its tree."""

import pytest
from django.utils import timezone

from jobs.models import HopCount, Job, Link, RepositoryConnection
from jobs.verbs import control, editing
from jobs.verbs.seeds import SeedWanted
from tests.support.factories import make_output
from tests.support.processes import held_by, wait_for


@pytest.fixture
def tree(tmp_path):
    """
    Return a root with two nested directories and four files. These are seven documents. One of the files is three hops
    away.
    """
    root = tmp_path / "testdata"
    (root / "testdir" / "testdir2").mkdir(parents=True)
    for name in ("test1.txt", "test2.txt", "testdir/test3.txt", "testdir/testdir2/test4.txt"):
        (root / name).write_text(f"This is {name}.")
    return root


@pytest.fixture
def daemons(cluster):
    cluster.start("runmanager", "runworker", "runworker")
    return cluster


def make_job(daemons, tree, **facts):
    repository = RepositoryConnection.objects.create(
        name="files", connector="filesystem", configuration={"roots": [str(tree)]}
    )
    usual = {"outputs": [make_output(daemons.output)], "specification": {}, "made_by": "a test", "now": timezone.now()}
    seeds = [SeedWanted((f"file://{tree}",))]
    return editing.create_job(name="tree", repository=repository, seeds=seeds, **usual, **facts).job


def files_in_output(daemons, tree):
    """Return the files that the output holds, by their paths below the root."""
    return {url.removeprefix(f"file://{tree}/") for url in held_by(daemons.output)}


def count_done(daemons):
    return sum(count for (stage, _), count in daemons.database.documents().items() if stage == 2)


def test_documents_three_hops_away_are_excluded_by_a_limit_of_two(daemons, tree):
    job = make_job(daemons, tree, hop_limits={"child": 2})

    assert daemons.run(job) == "finished"

    assert count_done(daemons) == 6
    assert files_in_output(daemons, tree) == {"test1.txt", "test2.txt", "testdir/test3.txt"}


def test_nearer_documents_are_indexed_and_farther_ones_removed(daemons, tree):
    job = make_job(daemons, tree, hop_limits={"child": 2})
    daemons.run(job)

    (tree / "testdir" / "testdir2").rename(tree / "testdir2")
    daemons.run(job)
    assert files_in_output(daemons, tree) == {"test1.txt", "test2.txt", "testdir/test3.txt", "testdir2/test4.txt"}

    (tree / "testdir2").rename(tree / "testdir" / "testdir2")
    daemons.run(job)
    assert files_in_output(daemons, tree) == {"test1.txt", "test2.txt", "testdir/test3.txt"}


def test_hop_limits_that_are_added_later_hold_from_the_next_run(daemons, tree):
    job = make_job(daemons, tree)
    daemons.run(job)
    assert count_done(daemons) == 7

    for limits, files in (
        ({"child": 1}, {"test1.txt", "test2.txt"}),
        ({"child": 2}, {"test1.txt", "test2.txt", "testdir/test3.txt"}),
        ({}, {"test1.txt", "test2.txt", "testdir/test3.txt", "testdir/testdir2/test4.txt"}),
    ):
        editing.change_job(job.pk, hop_limits=limits, made_by="a test", now=timezone.now())
        assert daemons.run(job) == "finished"
        assert files_in_output(daemons, tree) == files, limits


def test_a_deleted_job_leaves_no_links_and_no_counts(daemons, tree):
    job = make_job(daemons, tree, hop_limits={"child": 2})
    daemons.run(job)
    assert HopCount.objects.exists()

    control.delete(job.pk, made_by="a test", now=timezone.now())
    wait_for(lambda: not Job.objects.filter(pk=job.pk).exists(), saying="the job is deleted")

    assert not HopCount.objects.exists()
    assert not Link.objects.exists()
    assert files_in_output(daemons, tree) == set()
