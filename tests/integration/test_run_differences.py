"""Proves that rare differences between runs of large jobs are counted exactly by flushes, with examples and hosts."""

import pytest
from django.db import connection as django_connection

from jobs.duties.cleaning import clean
from jobs.duties.retention_subjects import SUBJECTS
from jobs.models import Job, Run, RunDifference
from jobs.queue.counting import counters
from jobs.state import run_samples
from tests.integration.test_pages import page_client
from tests.support.api import client_of
from tests.support.guarded_site import GuardedSite
from tests.support.scripted import url_of


@pytest.fixture
def site(connection, world, monkeypatch):
    """Return a crawled site of thirty pages. Its runs keep samples of two documents."""
    monkeypatch.setattr(run_samples, "SAMPLED", 2)
    site = GuardedSite(connection, world, pages=30, guard_percent=None)
    site.run()
    site.viewer = client_of("viewer")
    return site


def runs_of(site):
    return list(Run.objects.filter(job=site.job_id).order_by("run_no").values_list("pk", flat=True))


def compared(site, *, earlier=-2, later=-1):
    # The main manager folds the last counts in its next round.
    site.cluster.work()
    runs = runs_of(site)
    address = f"/api/v1/runs/comparison/?earlier={runs[earlier]}&later={runs[later]}"
    return site.viewer.get(address).json()["documents"]


def numbers(documents):
    return {kind["kind"]: kind["estimate"] for kind in documents["kinds"] if kind["estimate"]}


def test_one_document_of_many_that_fails_is_counted_and_named(site, world):
    world.put("page7", fails="503")

    site.run()

    documents = compared(site)
    (worse,) = [kind for kind in documents["kinds"] if kind["kind"] == "worse"]
    assert (documents["are_counted"], documents["is_exact"], documents["compared"]) == (True, False, 2)
    assert numbers(documents) == {"worse": 1}
    assert (worse["estimate"], worse["least"], worse["most"]) == (1, 1, 1)
    assert url_of("page7") in [one["identifier"] for one in worse["examples"]]
    (flip,) = worse["flips"]
    assert (flip["host"], flip["documents"], flip["examples"]) == ("here", 1, [url_of("page7")])
    assert (flip["earlier"]["outcome"], flip["later"]["outcome"]) == ("indexed", "failed")


def test_each_kind_of_difference_is_counted_exactly(site, world):
    world.put("page1", fails="503")
    world.put("page2", text="other words")
    site.put_root(links=[*(page for page in site.pages if page not in {"page3", "page4"}), "fresh", "also fresh"])
    world.put("fresh", text="fresh")
    world.put("also fresh", text="also fresh")
    site.run()

    # The root names other pages, but has the same text.
    assert numbers(compared(site)) == {"new": 2, "gone": 2, "changed": 1, "worse": 1}

    world.put("page1", text="text of page1")
    site.run()

    documents = compared(site)
    assert numbers(documents) == {"better": 1}
    # The flips of three runs are added, and a document may flip twice, so each number is an upper limit.
    both = compared(site, earlier=0)
    assert (both["are_counted"], both["are_limits"]) == (True, True)
    assert {kind["kind"]: kind["most"] for kind in both["kinds"] if kind["most"]} == {
        "new": 2,
        "gone": 2,
        "changed": 1,
        "worse": 1,
        "better": 1,
    }


def test_the_page_of_a_comparison_says_that_its_numbers_are_counted(site, world):
    world.put("page7", fails="503")
    site.run()
    site.cluster.work()
    earlier, later = runs_of(site)

    page = page_client("operator").get("/runs/comparison/", {"earlier": earlier, "later": later})

    text = page.content.decode()
    assert (
        "The later run counted all documents whose result differs from the run before. These numbers are exact." in text
    )
    worse = next(kind for kind in page.context["documents"]["kinds"] if kind["key"] == "worse")
    assert (worse["of_all"], worse["range"], [flip["host"] for flip in worse["flips"]]) == ("1", "", ["here"])
    assert url_of("page7") in text


def test_further_hosts_of_a_run_are_counted_together(site, world):
    kept = counters.DIFFERENCES_OF_RUN + 1
    RunDifference.objects.bulk_create(
        RunDifference(job_id=site.job_id, run_no=2, before=1200, after=3500, bin_id=-n, amount=1, examples=[])
        for n in range(1, kept + 1)
    )
    world.put("page7", fails="503")

    site.run()

    compared(site)
    (more,) = RunDifference.objects.filter(after=3503)
    assert (more.bin_id, more.amount, more.examples) == (0, 1, [url_of("page7")])


def test_runs_without_counted_differences_are_compared_by_estimates(site, world):
    Run.objects.update(has_differences=False)
    world.put("page7", fails="503")
    site.run()

    documents = compared(site)

    assert not documents["are_counted"]
    assert not [flip for kind in documents["kinds"] for flip in kind["flips"]]


def test_retention_deletes_the_differences_of_old_runs(site, world):
    world.put("page7", fails="503")
    site.run()
    compared(site)
    assert RunDifference.objects.exists()
    Job.objects.update(run_no=run_samples.SAMPLES_KEPT + 2)

    clean(django_connection.connection, SUBJECTS["runs"], now=site.cluster.clock.at)

    assert not RunDifference.objects.exists()
