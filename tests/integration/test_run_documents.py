"""Proves that documents are recorded at the end of each run, and that a page and the API show how two runs differ."""

import datetime as dt

import pytest
from django.db import connection as django_connection
from django.utils import timezone

from jobs.duties.cleaning import clean, look
from jobs.duties.retention_subjects import SUBJECTS
from jobs.lifecycle.document import Stage
from jobs.models import Job, Outcome, QueueItem, Run, RunSample
from jobs.state import run_samples
from tests.integration.test_pages import page_client
from tests.integration.test_run_records import begin, end
from tests.support.api import client_of
from tests.support.cluster import NOON
from tests.support.factories import hash_of, make_documents, make_job, make_lane

pytestmark = pytest.mark.django_db

HOUR = dt.timedelta(hours=1)


def read_in_run(job, names, *, code="200", version="v", outcome=Outcome.INDEXED, stage=Stage.DONE, **facts):
    """Let the present run of a job have read these documents of one host."""
    known = {
        "outcome": outcome,
        "result_code": code,
        "version": version,
        "stage": stage,
        "fetched_at": NOON + 24 * HOUR,
    }
    make_documents(make_lane(job.seeds.get()), names, run_no=job.run_no, **known, **facts)


def change(name, **facts):
    QueueItem.objects.filter(hash=hash_of(name)).update(**facts)


def ended_run(job, *, at):
    end(begin(job, at=at), at=at + HOUR)


def two_runs(job):
    """Let documents appear, disappear, change and fail between two runs. Return the ids of the runs."""
    read_in_run(begin(job), ["same", "gone", "changed", "worse"])
    read_in_run(job, ["better", "other"], outcome=Outcome.FAILED, code="500", version="")
    end(job)
    begin(job, at=NOON + 2 * HOUR)
    QueueItem.objects.filter(hash=hash_of("gone")).delete()
    change("changed", version="w")
    change("worse", outcome=Outcome.FAILED, result_code="503")
    change("better", outcome=Outcome.INDEXED, result_code="200", version="v")
    change("other", outcome=Outcome.EXCLUDED, result_code="404")
    read_in_run(job, ["new"])
    end(job, at=NOON + 3 * HOUR)
    return runs_of(job)


def runs_of(job):
    return list(Run.objects.filter(job=job).order_by("run_no").values_list("pk", flat=True))


def read(earlier, later):
    return client_of("viewer").get(f"/api/v1/runs/comparison/?earlier={earlier}&later={later}").json()["documents"]


def get_page(earlier, later):
    return page_client("operator").get("/runs/comparison/", {"earlier": earlier, "later": later})


def kinds_of(documents):
    return {
        kind["kind"]: [one["identifier"].rpartition("/")[2] for one in kind["examples"]] for kind in documents["kinds"]
    }


def test_two_runs_are_compared_document_by_document():
    documents = read(*two_runs(make_job("docs")))

    assert kinds_of(documents) == {kind: [kind] for kind in ("new", "gone", "changed", "worse", "better", "other")}
    assert (documents["is_exact"], documents["compared"], documents["estimate"]) == (True, 7, 7)
    worse = next(kind for kind in documents["kinds"] if kind["kind"] == "worse")
    assert (worse["count"], worse["least"], worse["most"]) == (1, 1, 1)
    assert worse["examples"][0]["earlier"] == {"outcome": "indexed", "result_code": "200"}
    assert worse["examples"][0]["later"] == {"outcome": "failed", "result_code": "503"}


def test_the_page_of_a_comparison_lists_different_documents_and_exact_numbers():
    earlier, later = two_runs(make_job("docs"))

    page = get_page(earlier, later)

    text = page.content.decode()
    assert "All documents of both runs were compared: 7. These numbers are exact." in text
    assert [kind["count"] for kind in page.context["documents"]["kinds"]] == ["1"] * 6
    assert f"{hash_of('worse').hex}/" in text


def test_a_large_job_is_compared_by_the_same_sample_of_both_runs(monkeypatch):
    monkeypatch.setattr(run_samples, "SAMPLED", 5)
    job = make_job("docs")
    read_in_run(begin(job), 40)
    end(job)
    ended_run(job, at=NOON + 2 * HOUR)
    first = sorted(hash_of(name).hex for name in range(40))[:5]
    # Differences of documents beyond the sample are not found.
    QueueItem.objects.filter(hash__gt=first[-1]).update(version="w")
    QueueItem.objects.filter(hash=first[0]).update(version="w")
    ended_run(job, at=NOON + 4 * HOUR)
    runs = runs_of(job)
    # These runs counted no documents that differ.
    Run.objects.update(has_differences=False)

    documents = read(runs[1], runs[2])

    assert [hash_.hex for hash_ in RunSample.objects.get(run=runs[0]).hashes] == first
    changed = next(kind for kind in documents["kinds"] if kind["kind"] == "changed")
    assert (documents["is_exact"], documents["compared"], changed["count"]) == (False, 5, 1)
    # The number of all documents is estimated from the highest hash of the sample.
    assert documents["estimate"] == round(5 * 2**128 / (int(first[-1], 16) + 1))
    assert changed["estimate"] == pytest.approx(documents["estimate"] / 5, abs=1)
    says = get_page(runs[1], runs[2]).content.decode()
    assert "A sample was compared: 5 of about" in says


def test_the_sample_does_not_depend_on_the_query_that_reads_it(monkeypatch):
    job, other = make_job("docs"), make_job("shop")
    read_in_run(other, ["a", "b"])
    read_in_run(begin(job), ["a", "b", "c"])
    end(job)
    small = RunSample.objects.values("hashes", "identifiers", "codes").get()

    monkeypatch.setattr(run_samples, "_OF_LANES", run_samples._OF_HASHES)
    ended_run(job, at=NOON + 2 * HOUR)

    assert RunSample.objects.order_by("-run").values("hashes", "identifiers", "codes")[0] == small
    assert len(small["hashes"]) == 3


def test_documents_beyond_the_hop_limits_no_longer_belong_to_the_job():
    job = make_job("docs")
    read_in_run(begin(job), ["near", "far"])
    end(job)
    begin(job, at=NOON + 2 * HOUR)
    change("far", stage=Stage.HOPCOUNT_REMOVED, outcome=Outcome.NONE)
    end(job, at=NOON + 3 * HOUR)

    assert kinds_of(read(*runs_of(job)))["gone"] == ["far"]


def test_a_host_is_slower_if_the_same_documents_took_longer_in_both_runs():
    job = make_job("docs")
    read_in_run(begin(job), 6, response_ms=100)
    end(job)
    begin(job, at=NOON + 2 * HOUR)
    QueueItem.objects.update(response_ms=260)
    end(job, at=NOON + 3 * HOUR)

    assert read(*runs_of(job))["slower_hosts"] == [
        {"host": "a.example", "documents": 6, "earlier_ms": 100, "later_ms": 260}
    ]


def test_documents_without_a_request_do_not_affect_the_speed_of_a_host():
    job = make_job("docs")
    read_in_run(begin(job), 6, response_ms=100)
    QueueItem.objects.update(fetched_at=NOON - HOUR)
    end(job)

    assert RunSample.objects.get().answer_ms == [None] * 6


def test_runs_without_a_record_are_not_compared_by_documents():
    job = make_job("docs")
    earlier, later = two_runs(job)
    RunSample.objects.filter(run=earlier).delete()

    page = get_page(earlier, later)

    assert read(earlier, later) is None
    assert "One of the runs has no record of its documents" in page.content.decode()


def test_a_running_run_has_no_record_of_documents_yet():
    job = make_job("docs")
    ended_run(job, at=NOON)
    begin(job, at=NOON + 2 * HOUR)
    earlier, later = runs_of(job)

    page = get_page(earlier, later)

    assert "A run records its documents when it ends." in page.content.decode()


def test_retention_deletes_the_records_of_old_runs():
    job = make_job("docs")
    ended_run(job, at=NOON)
    ended_run(job, at=NOON + 2 * HOUR)
    Job.objects.filter(pk=job.pk).update(run_no=run_samples.SAMPLES_KEPT + 1)
    connection = django_connection.connection

    assert look(connection, SUBJECTS["runs"], now=timezone.now()).rows == 1
    assert clean(connection, SUBJECTS["runs"], now=timezone.now()) == 1
    assert RunSample.objects.get().run.run_no == 2
