"""Proves by the site's log and the outputs the effects of stopping, denying and retrying a host."""

import datetime as dt
import signal
import time

from django.db.models import F
from django.utils import timezone

from crawlctl.demo.log import read_log
from jobs.checks.policies import RuleWanted
from jobs.lifecycle.document import Stage
from jobs.models import Batch, Bin, BinState, QueueItem
from jobs.queries.hosts.lines import read_host_statuses
from jobs.verbs import deny_list, hosts, policies
from jobs.verdicts.causes import Cause
from tests.chaos.checkers import fetches
from tests.support.factories import make_bin, make_job, make_policy
from tests.support.processes import held_by, wait_for

# Seconds after which a stopped host gets no request, not even for documents that workers have already claimed.
EFFECTIVE = 5.0
# Number of open requests that the policy allows.
OPEN = 6
PAGES = 120


def host_of(site):
    return site.plan.origins[0].removeprefix("http://")


def deny_host(site):
    deny_list.deny(host_of(site), reason="they called", made_by="ada", now=timezone.now())


def stop_host(site):
    return hosts.stop_named(host_of(site), reason="they called", made_by="ada", now=timezone.now())


def waiting(job):
    return QueueItem.objects.filter(job=job, stage=Stage.PENDING, run_no=F("job__run_no")).count()


def test_workers_close_requests_of_a_stopped_host_and_start_none(cluster, serve, tmp_path):
    starts, ends = tmp_path / "site-0.log", tmp_path / "ends"
    # Every third page takes a minute to answer.
    site, other = serve(pages=PAGES, traps=0, slow="3:60", ends=ends), serve(pages=20, traps=0)
    cluster.start("runmanager", "runworker", "runworker")
    urls = [site.plan.url(page) for page in range(PAGES)]
    policy = make_policy(open_requests=OPEN, min_gap=0.0)
    job = make_job(urls=urls, policy=policy, specification={"max_depth": 0, "scope": "any"})
    # Mark the host as known, so that the worker does not read a first document alone: that document may take a minute.
    make_bin(host_of(site))
    cluster.start_job(job)

    def open_now():
        site.requests()
        return [fetch for fetch in fetches(read_log(starts), read_log(ends)) if fetch.end == float("inf")]

    wait_for(lambda: len(open_now()) == OPEN, saying="the site has all requests that may be open")

    stopped_at = time.monotonic()
    stop_host(site)
    wait_for(lambda: not open_now(), saying="open requests are closed")
    assert not [code for (_, code), amount in cluster.counted(job).items() if code == "DENIED" and amount]
    deny_host(site)
    reason = cluster.wait_for_end(job)

    seen = fetches(read_log(starts), read_log(ends))
    assert reason == "finished"
    assert max(fetch.start for fetch in seen) < stopped_at + EFFECTIVE
    assert max(fetch.end for fetch in seen) < stopped_at + EFFECTIVE
    assert sum(amount for (_, code), amount in cluster.counted(job).items() if code == "DENIED") >= PAGES - len(seen)
    assert BinState.objects.get(bin__name=host_of(site)).open_requests == 0
    assert cluster.run(make_job(urls=[other.start_url])) == "finished"
    assert other.count_requests() > 20


def test_outputs_keep_documents_of_a_denied_or_stopped_host(cluster, serve):
    site = serve(pages=30, traps=0)
    cluster.start("runmanager", "runworker")
    job = cluster.make_job(site, min_gap=0.0)
    assert cluster.run(job) == "finished"
    requests_before = site.lines

    deny_host(site)
    assert cluster.run(job) == "finished"
    assert site.requests(since=requests_before) == []
    assert held_by(cluster.output) == site.documents

    stopped = stop_host(site)
    deny_list.allow_everywhere(host_of(site), made_by="ada")
    cluster.start_job(job)
    wait_for(lambda: waiting(job) > 0, saying="the seed waits for the host")
    hosts.release(stopped.pk, made_by="ada", now=timezone.now())
    assert cluster.wait_for_end(job) == "finished"
    assert len(site.requests(since=requests_before)) >= 30
    assert held_by(cluster.output) == site.documents


def test_all_waiting_documents_are_read_when_a_back_off_is_ended(cluster, serve):
    site = serve(pages=60, traps=0, latency_ms=50, busy="0:1:3600")
    cluster.start("runmanager", "runmanager", "runworker", "runworker")
    urls = [site.plan.url(page) for page in range(60)]
    policy = make_policy(open_requests=1, min_gap=0.05)
    job = make_job(urls=urls, policy=policy, specification={"max_depth": 0, "scope": "any"})
    bin_ = make_bin(host_of(site))
    cluster.start_job(job)
    wait_for(lambda: Bin.objects.get(pk=bin_.pk).back_off_level, saying="the host backs off")
    wait_for(lambda: not BinState.objects.get(bin=bin_).open_turns, saying="no document of the host is handed out")
    requests_before = site.count_requests()

    hosts.end_back_off(bin_.pk, made_by="ada", now=timezone.now())

    wait_for(lambda: site.count_requests() > requests_before, within=EFFECTIVE, saying="the host gets requests again")
    assert cluster.wait_for_end(job) == "finished"
    assert [request.status for request in site.requests()].count(200) == 60


def test_turns_offered_before_the_end_of_a_back_off_apply_the_end(cluster, serve):
    site = serve(pages=20, traps=0)
    _manager, worker = cluster.start("runmanager", "runworker", CRAWLCTL_NODE_TIMEOUT="60")
    urls = [site.plan.url(page) for page in range(20)]
    policy = make_policy(min_gap=0.05)
    job = make_job(urls=urls, policy=policy, specification={"max_depth": 0, "scope": "any"})
    bin_ = make_bin(host_of(site))
    worker.send(signal.SIGSTOP)
    cluster.start_job(job)
    wait_for(lambda: Batch.objects.filter(state="available").exists(), saying="documents of the host are offered")
    Bin.objects.update(back_off_level=1, back_off_until=timezone.now() + dt.timedelta(hours=1))

    worker.send(signal.SIGCONT)
    wait_for(lambda: Batch.objects.filter(worker__isnull=False).exists(), saying="the worker has taken documents")
    wait_for(lambda: not BinState.objects.get(bin=bin_).open_turns, saying="the worker has released the documents")
    assert site.count_requests() == 0
    hosts.end_back_off(bin_.pk, made_by="ada", now=timezone.now())

    wait_for(site.count_requests, within=EFFECTIVE, saying="the host gets requests")
    assert cluster.wait_for_end(job) == "finished"


def test_a_scheduled_denial_closes_requests_and_documents_wait_for_its_end(cluster, serve, tmp_path):
    starts, ends = tmp_path / "site-0.log", tmp_path / "ends"
    # All pages together take 10 s: twice the time in which a denial reaches all workers.
    site = serve(pages=200, traps=0, latency_ms=300, ends=ends)
    cluster.start("runmanager", "runworker", "runworker")
    urls = [site.plan.url(page) for page in range(200)]
    policy = make_policy(open_requests=OPEN, min_gap=0.0)
    job = make_job(urls=urls, policy=policy, specification={"max_depth": 0, "scope": "any"})
    make_bin(host_of(site))
    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > OPEN, saying="the host gets requests")

    # The denial holds on all weekdays except one, which is some days away.
    days = tuple(day for day in range(1, 8) if day != (timezone.now().isoweekday() + 2) % 7 + 1)
    policies.change(policy.pk, rules=[RuleWanted(denies=True, days=days)], everywhere=True)
    denied_at = time.monotonic()
    wait_for(lambda: not BinState.objects.filter(open_turns__gt=0).exists(), saying="no turn is open")
    requests_before = site.count_requests()
    line = read_host_statuses([BinState.objects.get(bin__name=host_of(site)).bin_id], now=timezone.now())[0]

    assert max(fetch.start for fetch in fetches(read_log(starts), read_log(ends))) < denied_at + EFFECTIVE
    assert line.verdict.cause == Cause.CLOSED
    policies.change(policy.pk, rules=[], everywhere=True)
    assert cluster.wait_for_end(job) == "finished"
    assert site.count_requests() > requests_before
    assert not [code for (_, code), amount in cluster.counted(job).items() if code == "DENIED" and amount]
