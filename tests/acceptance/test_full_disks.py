"""Proves that a crawl pauses while a disk is too full, shows the reason, and continues by itself."""

from jobs.models import Job
from jobs.settings.table import TABLE
from nodes.settings import versions
from tests.support.processes import held_by, wait_for

CLAIMED = (
    "SELECT FROM jobs_batch AS batch JOIN jobs_queueitem AS item ON item.batch_id = batch.id WHERE batch.state = 'sent'"
)


def set_limit(mebibytes):
    versions.store(TABLE, {"process": {"free_disk": mebibytes}}, made_by="a test")


def test_a_crawl_pauses_below_the_limit_of_free_disk(cluster, serve):
    site = serve(pages=300, hosts=2, traps=1, latency_ms=40)
    cluster.start("runmanager", "runworker", CRAWLCTL_FREE_DISK="")
    job = cluster.make_job(site, open_requests=4)
    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 60, saying="the crawl is in progress")

    set_limit(100_000_000)
    reason = wait_for(lambda: Job.objects.get(pk=job.pk).reason, saying="the job shows a reason")
    wait_for(lambda: not cluster.database.rows(CLAIMED), saying="the worker has no claimed documents")
    requests_before = site.lines

    assert "the limit (CRAWLCTL_FREE_DISK) is 100,000,000 MiB" in reason
    assert held_by(cluster.output) < site.documents

    set_limit(1)

    assert cluster.wait_for_end(job) == "finished"
    assert held_by(cluster.output) == site.documents
    assert site.lines > requests_before
    assert Job.objects.get(pk=job.pk).reason == ""
