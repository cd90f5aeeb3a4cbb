"""Proves with real daemons that only workers with a tag read the seeds that require it."""

from jobs.models import Job, Seed
from tests.support.processes import QUICK_HEARTBEATS, held_by, wait_for


def test_a_tagged_seed_waits_for_a_worker_with_the_tag(cluster, serve):
    site = serve(pages=40, traps=0)
    cluster.start("runmanager", "runworker")
    job = cluster.make_job(site)
    Seed.objects.update(tag="inside")
    cluster.start_job(job)
    wait_for(lambda: "“inside”" in Job.objects.get(pk=job.pk).reason, saying="the job names the missing tag")
    assert not site.count_requests()

    tagged = cluster.machine.start("runworker", "--tag", "inside", **QUICK_HEARTBEATS)

    assert cluster.wait_for_end(job) == "finished"
    assert held_by(cluster.output) == site.documents
    readers = cluster.database.rows(
        "SELECT DISTINCT worker_id FROM jobs_batch WHERE kind = 'process' AND sent_at IS NOT NULL"
    )
    assert [row.worker_id for row in readers] == [cluster.node_of(tagged).id]
