"""Proves by the site's own log that crawls keep their minimum gaps, rates, and limits of open requests and bytes."""

import datetime as dt
from itertools import pairwise

import psycopg
from django.utils import timezone

from crawlctl.demo.log import read_log
from jobs.lifecycle.document import Stage
from jobs.models import Job, LaneState, QueueItem, Turn
from jobs.queue.offering.stuff import stuff
from jobs.verbs import control, policies
from nodes.database.address import database_dsn
from tests.chaos.checkers import fetches
from tests.support.cluster import register_node
from tests.support.factories import make_documents, make_job, make_lane, make_policy, make_running_job
from tests.support.pace.rules import MostBytes
from tests.support.processes import ended, wait_for

# Seconds by which the site may see two starts closer together than the worker made them.
TOLERANCE = 0.02


def assert_paced(requests, *, gap):
    """Assert that no two starts at one host are closer than `gap` seconds."""
    by_host = {}
    for request in requests:
        by_host.setdefault(request.host, []).append(request)
    for starts in by_host.values():
        for place, (earlier, later) in enumerate(pairwise(starts)):
            apart = (later.time - earlier.time) / 1e9
            assert apart > gap - TOLERANCE, f"{apart:.3f} s between starts {place} and {place + 1}: {earlier}, {later}"


def everything(site):
    """Return all requests that the site received, including robots.txt."""
    assert site.lines
    return list(read_log(site.log))


def test_requests_keep_their_gap_if_the_worker_is_killed_between_them(machine, serve):
    site = serve(pages=40, hosts=2, traps=3)

    crawl = machine.start_crawl(site.start_url, "--scope", "any", "--delay", 0.15, "--workers", 2)
    wait_for(lambda: site.count_requests() > 20, saying="the crawl is in progress")
    crawl.children()[0].kill()
    crawl = ended(crawl)

    assert crawl.counts["indexed"] == 40
    assert_paced(everything(site), gap=0.15)


def test_a_rate_is_kept_as_a_minimum_gap_between_starts(machine, serve):
    site = serve(pages=15, traps=0)

    crawl = machine.crawl(site.start_url, "--rate", "400/minute", "--workers", 1)

    assert crawl.counts["indexed"] == 15
    assert_paced(everything(site), gap=0.15)


def test_a_limit_of_bytes_per_second_holds_over_any_ten_seconds(machine, serve, tmp_path):
    ends = tmp_path / "ends"
    site = serve(pages=50, traps=0, ends=ends)

    crawl = machine.crawl(site.start_url, "--bytes-per-second", 40_000, "--workers", 2)

    assert crawl.counts["indexed"] == 50
    made = fetches(everything(site), read_log(ends))
    sent = sum(fetch.size for fetch in made)
    assert sent > 10 * 40_000
    assert list(MostBytes(per_second=40_000).broken(made, ())) == []
    assert made[-1].start - made[0].start < 3 * sent / 40_000


def test_two_independent_crawls_keep_the_minimum_gap_together(machine, serve):
    site = serve(pages=15, traps=0)

    crawls = [machine.start_crawl(site.start_url, "--delay", 0.15, "--workers", 1) for _ in range(2)]

    assert [ended(crawl).counts["indexed"] for crawl in crawls] == [15, 15]
    assert_paced(everything(site), gap=0.15)


def test_open_requests_never_exceed_their_limit(machine, serve):
    site = serve(pages=120, hosts=2, traps=0, latency_ms=30)

    crawl = machine.crawl(site.start_url, "--scope", "any", "--connections-per-host", 4, "--workers", 2)

    assert crawl.counts["indexed"] == 120
    assert 2 <= max(request.open_requests for request in everything(site)) <= 4


def test_two_independent_crawls_share_the_open_requests_of_a_host(machine, serve):
    site = serve(pages=150, traps=0, latency_ms=10)

    crawls = [machine.start_crawl(site.start_url, "--connections-per-host", 3, "--workers", 2) for _ in range(2)]

    assert [ended(crawl).counts["indexed"] for crawl in crawls] == [150, 150]
    assert 2 <= max(request.open_requests for request in everything(site)) <= 3


def test_the_crawl_delay_of_robots_txt_is_kept(machine, serve):
    site = serve(pages=10, traps=0, crawl_delay=0.3)

    crawl = machine.crawl(site.start_url, "--delay", 0)

    assert crawl.counts["indexed"] == 10
    assert_paced(site.requests(), gap=0.3)


def test_a_busy_host_gets_the_pause_that_it_requested(machine, serve):
    site = serve(pages=30, hosts=2, traps=0, busy="1:2:1")

    crawl = machine.crawl(site.start_url, "--scope", "any", "--connections-per-host", 1)

    assert (crawl.code, crawl.codes) == (0, {"200": 30})
    busy = [request for request in site.requests() if request.host.startswith("127.0.0.2")]
    assert [request.status for request in busy].count(429) == 2
    for refused, following in pairwise(busy):
        assert refused.status == 200 or (following.time - refused.time) / 1e9 > 1 - TOLERANCE


def test_the_next_successor_is_offered_when_a_successor_starts(machine, serve):
    site = serve(pages=215, traps=0)
    job = make_job(
        urls=[site.plan.url(page) for page in range(215)],
        policy=make_policy(open_requests=2, min_gap=0.04),
        specification={"max_depth": 0},
    )
    for daemon in ("runmanager", "runworker"):
        machine.start(daemon)

    control.start(job.pk, made_by="a test", now=timezone.now())
    wait_for(
        lambda: Job.objects.get(pk=job.pk).run_no and site.count_requests() > 215, saying="all pages were requested"
    )
    wait_for(lambda: Job.objects.get(pk=job.pk).phase == "inactive", saying="the job has ended")

    # A turn of 50 documents lasts two seconds.
    long = list(Turn.objects.filter(follows__isnull=False, documents=50).select_related("follows"))
    assert long
    assert all(turn.closed_at - turn.follows.closed_at > dt.timedelta(seconds=0.5) for turn in long)


def test_a_worker_at_its_limit_still_takes_a_successor_in_time(machine, serve):
    quick, slow = serve(pages=320, traps=0), serve(pages=900, traps=0, slow="2:10")
    paced = make_job(
        urls=[quick.plan.url(page) for page in range(320)],
        policy=make_policy(open_requests=2, min_gap=0.0625),
        specification={"max_depth": 0},
    )
    filling = make_job(
        urls=[slow.plan.url(page) for page in range(1, 900)],
        policy=make_policy("any", open_requests=250, min_gap=0.0),
        specification={"max_depth": 0},
    )
    machine.start("runmanager")
    machine.start("runworker", CRAWLCTL_CLAIMED_PER_WORKER="256")

    control.start(paced.pk, made_by="a test", now=timezone.now())
    wait_for(
        lambda: Job.objects.get(pk=paced.pk).run_no and quick.count_requests() > 5, saying="the host gets requests"
    )
    control.start(filling.pk, made_by="a test", now=timezone.now())
    wait_for(lambda: Job.objects.get(pk=paced.pk).phase == "inactive", saying="the job of the host has ended")

    assert slow.count_requests() > 150
    # A turn is an eighth of the worker's limit of claims. It lasts 2 s, in which the next turn must arrive.
    # The first turn may have one document, and ends immediately.
    following = Turn.objects.filter(follows__documents=32, lane__seed__job=paced, documents=32)
    late = [
        turn for turn in following.select_related("follows", "batch") if turn.batch.sent_at > turn.follows.closed_at
    ]
    assert following.exists()
    assert not late


def test_a_mistaken_gap_of_an_hour_ends_with_its_correction(machine, serve):
    site = serve(pages=400, traps=0)
    policy = make_policy(open_requests=1, min_gap=0.05)
    urls = [site.plan.url(page) for page in range(400)]
    job = make_job(urls=urls, policy=policy, specification={"max_depth": 0})
    for daemon in ("runmanager", "runworker"):
        machine.start(daemon)
    control.start(job.pk, made_by="a test", now=timezone.now())
    # Dozens of documents are claimed by then.
    wait_for(lambda: site.count_requests() > 80, saying="the host gets requests")

    policies.change(policy.pk, min_gap=3600.0, everywhere=True)
    wait_for(
        lambda: LaneState.objects.filter(ready_at__gt=timezone.now() + dt.timedelta(minutes=30)).exists(),
        saying="the host waits for an hour",
    )
    policies.change(policy.pk, min_gap=0.05, everywhere=True)

    wait_for(lambda: Job.objects.get(pk=job.pk).phase == "inactive", within=90, saying="the job has ended")
    assert site.count_requests() >= 400


def test_turns_offered_before_an_edit_and_taken_later_apply_the_edit(machine, serve):
    site = serve(pages=40, traps=0)
    (origin,) = site.plan.origins
    offered_at = timezone.now() - dt.timedelta(seconds=20)
    with psycopg.connect(database_dsn(), autocommit=True) as connection:
        manager = register_node(connection, "manager")
        policy = make_policy(open_requests=1, min_gap=0.05)
        running = make_running_job(manager, policy=policy, specification={"scope": "any"})
        lane = make_lane(running.seed, origin.removeprefix("http://"), ready_at=offered_at)
        make_documents(lane, [site.plan.url(page).removeprefix(f"{origin}/") for page in range(40)])

        def offer(at):
            return stuff(connection, manager=manager.id, group=running.group, room=40, workers=1, now=at).documents

        assert offer(offered_at) == 40
        policies.change(running.seed.policy_id, min_gap=1.0, everywhere=False)

        machine.start("runworker")
        wait_for(lambda: not QueueItem.objects.filter(stage=Stage.ACTIVE).exists(), saying="no document is in progress")
        wait_for(lambda: offer(timezone.now()), saying="the returned documents are offered again")

        def is_asked_three_times():
            offer(timezone.now())
            return site.count_requests() > 2

        wait_for(is_asked_three_times, saying="the host gets requests")

    assert_paced(everything(site), gap=1.0)


def test_a_mistaken_limit_of_ten_bytes_a_second_ends_with_its_correction(machine, serve):
    site = serve(pages=60, traps=0)
    policy = make_policy(open_requests=1, min_gap=0.0, bytes_per_second=100_000)
    urls = [site.plan.url(page) for page in range(60)]
    job = make_job(urls=urls, policy=policy, specification={"max_depth": 0})
    for daemon in ("runmanager", "runworker"):
        machine.start(daemon)
    control.start(job.pk, made_by="a test", now=timezone.now())
    wait_for(lambda: site.count_requests() > 5, saying="the host gets requests")

    policies.change(policy.pk, bytes_per_second=10, everywhere=True)
    wait_for(
        lambda: LaneState.objects.filter(ready_at__gt=timezone.now() + dt.timedelta(minutes=5)).exists(),
        saying="the host waits for its limit of bytes",
    )
    requests_before = site.count_requests()
    policies.change(policy.pk, bytes_per_second=10_000_000, everywhere=True)

    wait_for(lambda: Job.objects.get(pk=job.pk).phase == "inactive", within=90, saying="the job has ended")
    assert requests_before < 60 <= site.count_requests()


def test_two_policies_keep_the_strictest_limits_of_a_shared_host(machine, serve):
    site = serve(pages=69, traps=0, latency_ms=30)
    pages = [site.plan.url(page) for page in range(69)]
    gentle, eager = make_policy(open_requests=1, min_gap=0.15), make_policy(open_requests=4, min_gap=0.02)
    # Pages without links, so the address of a request shows its job. A turn has at most 13 documents of the strict job,
    # so the other job gets a turn before the strict job ends.
    facts = {"specification": {"max_depth": 0}}
    strict_job = make_job(urls=pages[:45], policy=gentle, **facts)
    eager_job = make_job(urls=pages[45:], policy=eager, **facts)
    for daemon in ("runmanager", "runmanager", "runworker", "runworker"):
        machine.start(daemon)
    at_work = "SELECT count(*) FROM nodes_node WHERE status = 'running'"
    wait_for(lambda: machine.database.value(at_work) == 4, saying="all daemons are at work")

    for job in (strict_job, eager_job):
        control.start(job.pk, made_by="a test", now=timezone.now())
        wait_for(lambda job=job: Job.objects.get(pk=job.pk).phase == "active", saying="the job runs")
    owners = {row.owner_id for row in machine.database.rows("SELECT owner_id FROM jobs_throttlegroup")}
    wait_for(lambda: not Job.objects.exclude(phase="inactive").exists(), saying="both jobs have ended")

    requests = site.requests()
    assert sorted(request.url for request in requests) == sorted(pages)
    of_strict = [place for place, request in enumerate(requests) if request.url in pages[:45]]
    shared = requests[of_strict[0] : of_strict[-1] + 1]
    assert len(shared) > 45
    assert_paced(shared, gap=0.15)
    assert max(request.open_requests for request in shared) == 1
    assert len(owners) == 2
