"""A worker uses the newest version of each job, also for documents that it claimed before an edit."""

import asyncio
from types import SimpleNamespace

import pytest

from jobs.loops.worker.jobs import JobTable, read_job
from jobs.models import Job
from tests.support.cluster import register_node
from tests.support.factories import make_running_job


@pytest.fixture
def job(connection):
    return make_running_job(register_node(connection, "manager")).job


def claim_of(job, **versions):
    """Return a claim made when the job had these versions."""
    usual = {"specification_version": job.specification_version, "revision": job.revision}
    return SimpleNamespace(job_id=job.pk, run_no=job.run_no, **(usual | versions))


def jobs_for(connection, job, *claims, edits=()):
    """
    Return the job that a worker uses for each of these claims. The worker has read the job before, and after each edit.
    """

    async def look(rows):
        table = JobTable()
        for row in rows:
            table.add(row)
        try:
            return [table.find(claimed) for claimed in claims]
        finally:
            await table.close()

    rows = [read_job(connection, job_id=job.pk)]
    for edit in edits:
        Job.objects.filter(pk=job.pk).update(**edit)
        rows.append(read_job(connection, job_id=job.pk))
    return asyncio.run(look(rows))


@pytest.mark.parametrize("version", ["specification_version", "revision"])
def test_a_document_that_is_claimed_after_an_edit_is_read_with_the_edit(connection, job, version):
    known, edited = jobs_for(connection, job, claim_of(job), claim_of(job, **{version: 2}))

    assert known is not None
    assert edited is None


def test_a_document_claimed_before_an_edit_is_read_with_the_edit(connection, job):
    specification = {**job.specification, "exclude": ["private"]}

    [edited] = jobs_for(
        connection, job, claim_of(job), edits=[{"specification_version": 2, "specification": specification}]
    )

    assert edited.configuration == "2"
    assert not edited.facts.admits("http://a.example/private")
