"""Proves that managers and workers of a cluster survive kills, freezes and drains, and obey operators."""

import resource
import signal
from collections import Counter

from django.utils import timezone

from jobs.models import Job
from jobs.verbs import control
from tests.support.processes import QUICK_HEARTBEATS, ended, held_by, read_lines, wait_for

CLAIMED_AT_MOST = 256


def undisturbed(site):
    """Return the documents of an undisturbed run, by (stage, result code)."""
    traps = Counter(trap for page in range(site.plan.pages) for trap in site.plan.outline(page).traps)
    codes = {"200": site.plan.pages, "404": traps["missing"], "REDIRECT": traps["redirect"], "ROBOTS": traps["private"]}
    return {(2, code): count for code, count in codes.items() if count}


def assert_undisturbed(cluster, job, site):
    """Assert that queue, outputs and counts equal those of an undisturbed run."""
    assert cluster.database.documents() == undisturbed(site)
    assert cluster.counted(job) == undisturbed(site)
    assert held_by(cluster.output) == site.documents


def refetches(site):
    """Return the number of requests beyond the site's plan."""
    flaky = sum(site.plan.outline(page).is_flaky for page in range(site.plan.pages))
    requests = Counter(request.url for request in site.requests())
    return sum(requests.values()) - len(requests) - flaky


# --- Killed and frozen ---------------------------------------------------------------------------


def test_a_killed_worker_and_a_killed_main_manager_lose_no_document(cluster, serve):
    site = serve(pages=300, hosts=2, traps=3, latency_ms=60)
    first, second, *workers = cluster.start("runmanager", "runmanager", "runworker", "runworker")
    job = cluster.make_job(site)

    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 70, saying="the crawl is in progress")
    cluster.busiest(*workers).kill()
    wait_for(lambda: site.count_requests() > 150, saying="the crawl goes on")
    cluster.main(first, second).kill()

    assert cluster.wait_for_end(job) == "finished"
    assert_undisturbed(cluster, job, site)
    assert 0 < refetches(site) <= CLAIMED_AT_MOST
    statuses = Counter(row.status for row in cluster.database.rows("SELECT status FROM nodes_node"))
    assert statuses == {"running": 2, "failed": 2}


def test_a_cluster_that_was_killed_as_a_whole_continues_after_a_restart(cluster, serve):
    site = serve(pages=200, hosts=2, traps=3, latency_ms=60)
    daemons = cluster.start("runmanager", "runworker", "runworker")
    job = cluster.make_job(site)

    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 60, saying="the crawl is in progress")
    for daemon in daemons:
        daemon.kill()
    cluster.start("runmanager", "runworker")

    assert cluster.wait_for_end(job) == "finished"
    assert_undisturbed(cluster, job, site)
    assert refetches(site) <= 2 * CLAIMED_AT_MOST


def test_a_frozen_worker_that_wakes_after_it_was_marked_failed_changes_nothing(cluster, serve):
    site = serve(pages=250, hosts=2, traps=3, latency_ms=60)
    _, *workers = cluster.start("runmanager", "runworker", "runworker")
    job = cluster.make_job(site)

    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 80, saying="the crawl is in progress")
    frozen = cluster.busiest(*workers)
    frozen.send(signal.SIGSTOP)
    wait_for(lambda: cluster.node_of(frozen).status == "failed", saying="the frozen worker is failed")
    frozen.send(signal.SIGCONT)

    assert frozen.wait() == 1
    assert cluster.node_of(frozen).refused_writes > 0
    assert cluster.wait_for_end(job) == "finished"
    assert_undisturbed(cluster, job, site)
    assert refetches(site) <= CLAIMED_AT_MOST


def test_the_job_of_a_dead_one_shot_is_left_paused_and_can_be_resumed(cluster, serve):
    site = serve(pages=150, hosts=2, traps=0, latency_ms=60)
    cluster.start("runmanager")
    crawl = cluster.machine.start_crawl(site.start_url, "--scope", "any", output=cluster.output, **QUICK_HEARTBEATS)
    wait_for(lambda: site.count_requests() > 50, saying="the crawl is in progress")

    crawl.kill_with_children()

    job = wait_for(lambda: Job.objects.filter(pause="paused").first(), saying="the job is paused")
    assert job.reason == "its process no longer exists"
    assert cluster.database.value("SELECT count(*) FROM jobs_queueitem WHERE batch_id IS NOT NULL") == 0
    assert ended(cluster.machine.start("crawl", "--resume", "--json")).counts["indexed"] == 150
    assert held_by(cluster.output) == site.documents


# --- Orderly stops -------------------------------------------------------------------------------


def test_a_stopping_worker_releases_documents_that_have_not_started(cluster, serve):
    site = serve(pages=40, traps=0, latency_ms=1000)
    _, worker = cluster.start("runmanager", "runworker")
    node = cluster.node_of(worker)
    job = cluster.make_job(site, open_requests=8)

    def claimed():
        return cluster.database.value(
            """
            SELECT count(*) FROM jobs_queueitem AS item JOIN jobs_batch AS batch ON batch.id = item.batch_id
             WHERE batch.worker_id = %s AND batch.state = 'sent'
            """,
            node.id,
        )

    cluster.start_job(job)
    wait_for(lambda: claimed() > 16, saying="the worker has claimed more documents than it can start")
    # No started request can end while the site is silent, so each returned document had not begun.
    with site.silent():
        worker.send(signal.SIGTERM)
        wait_for(lambda: claimed() <= 8, saying="documents that had not started are released")
    cluster.start("runworker")
    assert worker.wait() == 0
    assert cluster.node_of(worker).status == "stopped"
    assert cluster.wait_for_end(job) == "finished"
    assert_undisturbed(cluster, job, site)
    assert refetches(site) == 0


def test_a_second_signal_ends_a_daemon_immediately_and_loses_nothing(cluster, serve):
    site = serve(pages=30, traps=0, latency_ms=500)
    # Without the second signal, the process would wait for its requests longer than this test lasts.
    manager, worker = cluster.start("runmanager", "runworker", CRAWLCTL_DRAIN_TIMEOUT="600")
    job = cluster.make_job(site, open_requests=4)

    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 4, saying="requests are open")
    with site.silent():
        worker.send(signal.SIGTERM)
        wait_for(lambda: cluster.node_of(worker).status != "running", saying="the worker drains after the first signal")
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0

    cluster.start("runworker")
    assert cluster.wait_for_end(job) == "finished"
    assert_undisturbed(cluster, job, site)
    manager.send(signal.SIGTERM)
    assert manager.wait() == 0


# --- Verbs for jobs ------------------------------------------------------------------------------


def wait_for_pause(database, job):
    wait_for(lambda: Job.objects.get(pk=job.pk).pause == "paused", saying="the job is paused")
    return database.value(
        """
        SELECT extract(epoch FROM rest.at - asked.at)::float
          FROM jobs_jobevent AS asked, jobs_jobevent AS rest
         WHERE asked.kind = 'pause' AND rest.kind = 'halt' AND rest.id > asked.id
         ORDER BY asked.id DESC LIMIT 1
        """
    )


def test_a_job_without_a_worker_is_paused_within_two_seconds(cluster, serve):
    site = serve(pages=10, traps=0)
    cluster.start("runmanager")
    job = cluster.make_job(site)
    cluster.start_job(job)
    wait_for(lambda: Job.objects.get(pk=job.pk).phase == "active", saying="the job runs")

    control.pause(job.pk, made_by="a test", now=timezone.now())

    assert wait_for_pause(cluster.database, job) < 2


def test_a_job_is_paused_resumed_aborted_and_deleted_while_it_runs(cluster, serve):
    site = serve(pages=200, hosts=2, traps=0, latency_ms=100)
    (_, worker) = cluster.start("runmanager", "runworker")
    job = cluster.make_job(site)

    def request_transition(name):
        getattr(control, name)(job.pk, made_by="a test", now=timezone.now())

    # Pause: open requests end, and no other request begins.
    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 40, saying="the crawl is in progress")
    request_transition("pause")
    assert wait_for_pause(cluster.database, job) < 2 + 0.1
    requests_before = site.lines
    last_beat_at = cluster.node_of(worker).heartbeat_at
    wait_for(
        lambda: (cluster.node_of(worker).heartbeat_at - last_beat_at).total_seconds() > 1,
        saying="the worker sends heartbeats for a second",
    )
    assert site.lines == requests_before < 200

    # Resume: the run reaches its exact end.
    request_transition("resume")
    assert cluster.wait_for_end(job) == "finished"
    assert_undisturbed(cluster, job, site)
    assert refetches(site) == 0

    # Abort: documents that the run did not reach keep their state.
    requests_before = site.lines
    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > requests_before + 40, saying="the second run is in progress")
    request_transition("abort")
    assert cluster.wait_for_end(job) == "aborted"
    assert held_by(cluster.output) == site.documents

    # Delete: nothing is left.
    request_transition("delete")
    wait_for(lambda: not Job.objects.filter(pk=job.pk).exists(), saying="the job is deleted")
    assert held_by(cluster.output) == set()
    assert len([line for line in read_lines(cluster.output) if line["action"] == "delete"]) == 200
    assert cluster.database.documents() == {}


# --- Outputs that are full ------------------------------------------------------------------------


def test_a_job_with_a_full_output_pauses_and_continues_when_there_is_room(cluster, serve):
    site = serve(pages=150, hosts=2, traps=3, latency_ms=20)
    _, worker = cluster.start("runmanager", "runworker")
    job = cluster.make_job(site, open_requests=4)
    cluster.start_job(job)
    wait_for(lambda: len(lines_so_far(cluster.output)) > 30, saying="the crawl is in progress")

    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (cluster.output.stat().st_size + 1000, resource.RLIM_INFINITY))
    wait_for(lambda: Job.objects.get(pk=job.pk).pause == "paused", saying="the job is paused")

    job.refresh_from_db()
    assert f"{cluster.output} cannot be written: it would grow beyond" in job.reason
    assert not worker.has_ended
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    control.resume(job.pk, made_by="a test", now=timezone.now())
    assert cluster.wait_for_end(job) == "finished"
    assert_undisturbed(cluster, job, site)


def lines_so_far(path):
    """Return the lines of an output that is being written. The last line may be incomplete."""
    return path.read_bytes().splitlines() if path.exists() else []
