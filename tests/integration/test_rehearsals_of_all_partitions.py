"""Proves that a rehearsal in the control partition compares the documents of all partitions."""

# ruff: noqa: F811 (fixtures of another file)

import pytest

from jobs.connectors.repository.base import hash_of
from jobs.lifecycle.document import Stage
from jobs.models import IndexedDocument, Job, OutLinks, OutputConnection, PartitionedJob, QueueItem, RejectedAddress
from jobs.queries.rehearsals.all_partitions import Readers
from jobs.queries.rehearsals.comparing import Rejected
from jobs.queries.rehearsals.documents import Sample, estimate
from tests.integration.test_pages_of_other_partitions import administrator, control, silent  # noqa: F401
from tests.support.factories import make_documents, make_job, make_lane
from tests.support.processes import copy_of

SEED = "http://a.example/"
THERE = "http://b.example/between"
HERE = "http://a.example/behind"


def make_site(host, pages, *, links):
    """Make the part of a job that one partition has: its documents, held by an output, with their links."""
    job = make_job("news", urls=[SEED])
    index = OutputConnection.objects.create(name="index", connector="search")
    job.outputs.add(index)
    lane = make_lane(job.seeds.get(), host)
    facts = {"stage": Stage.DONE, "indexed_before": True, "outcome": 1, "result_code": "200"}
    for url, document in zip(pages, make_documents(lane, len(pages), **facts), strict=True):
        QueueItem.objects.filter(hash=document.hash).update(hash=hash_of(url), identifier=url)
        IndexedDocument.objects.create(output=index, hash=hash_of(url), version="1", indexed_at="2026-01-01T00:00Z")
        targets = [hash_of(target) for target in links.get(url, ())]
        OutLinks.objects.create(hash=hash_of(url), job=job, targets=targets, is_redirect=False)
    return job


@pytest.fixture
def job(connection):
    return make_site("a.example", [SEED, HERE], links={SEED: [THERE]})


@pytest.fixture
def database(template, job, django_db_blocker):
    with django_db_blocker.unblock(), copy_of(template) as database:
        with database.as_django():
            OutputConnection.objects.create(name="another", connector="search")
            make_job("of another number")
            other = make_site("b.example", [THERE], links={THERE: [HERE]})
            PartitionedJob.objects.create(job=other, number=job.pk)
            facts = {"identifier": "http://b.example/wanted", "found_on": hash_of(THERE)}
            RejectedAddress.objects.create(job=other, hash=hash_of(facts["identifier"]), **facts)
        yield database


def rehearse(client, job, **specification):
    return client.post(
        f"/api/v1/jobs/{job.pk}/rehearse/", {"specification": {"scope": "any", **specification}}, format="json"
    ).json()


def test_a_document_leaves_with_its_linking_pages_of_another_partition(control, job, administrator):
    found = rehearse(administrator, job, exclude=["/between"])

    assert (found["documents"], found["staying"], found["dropped"]) == (3, 1, 2)
    assert found["refused"][0]["examples"] == [THERE]
    assert found["unlinked"] == {"number": 1, "examples": [HERE]}
    assert found["losses"] == [{"output": "index", "documents": 2}]
    assert [(host["host"], host["before"], host["after"]) for host in found["hosts"]] == [
        ("a.example", 2, 1),
        ("b.example", 1, 0),
    ]
    assert (found["silent"], found["notes"]) == ([], [])
    assert Job.objects.get(pk=job.pk).specification.get("exclude") is None


def test_a_change_that_refuses_nothing_keeps_the_documents_of_all_partitions(control, job, administrator):
    found = rehearse(administrator, job, exclude=["/nothing"])

    assert (found["documents"], found["dropped"], found["arrivals"]["found"]["number"]) == (3, 0, 1)


@pytest.mark.usefixtures("silent")
def test_a_rehearsal_names_a_silent_partition(job, administrator):
    found = rehearse(administrator, job, exclude=["/between"])

    assert (found["documents"], found["silent"]) == (2, ["b"])
    assert found["notes"][0].startswith("Partition b does not answer. Its documents are not counted")


class OneSample:
    def __init__(self, keys, *, is_whole):
        self._sample = Sample([Rejected(bytes([key] * 16), str(key), b"") for key in keys], is_whole)

    def sample(self):
        return self._sample


def test_samples_of_partitions_are_cut_where_the_first_full_sample_ends():
    found = Readers([OneSample([1, 4, 9], is_whole=False), OneSample([2, 7], is_whole=True)]).sample()

    assert ([row.identifier for row in found.rows], found.is_whole) == (["1", "2", "4", "7", "9"], False)
    cut = Readers([OneSample([1, 4], is_whole=False), OneSample([2, 7], is_whole=False)]).sample()
    assert [row.identifier for row in cut.rows] == ["1", "2", "4"]
    assert estimate(bytes([128] + [0] * 15), 5) == 8
