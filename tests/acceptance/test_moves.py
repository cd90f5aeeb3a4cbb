"""Proves by the site's log that a group which changes its manager during a crawl has no pause and no loss."""

import signal
from collections import Counter
from itertools import pairwise

from django.utils import timezone

from jobs.models import Job, ThrottleGroup
from jobs.verbs.cluster import drain_node, move_group
from nodes.models import ClusterRequest
from tests.support.factories import make_job, make_policy
from tests.support.processes import held_by, wait_for

# Seconds between starts at a host. A move may lengthen the longest gap by two heartbeats of the test.
GAP = 0.1
TWO_BEATS = 1.0


def longest_gap(requests):
    """Return the longest time between two starts at one host, in seconds."""
    by_host = {}
    for request in requests:
        by_host.setdefault(request.host, []).append(request.time)
    return max((later - earlier) / 1e9 for times in by_host.values() for earlier, later in pairwise(times))


def owner_of(group):
    row = ThrottleGroup.objects.get(pk=group.pk)
    return row.owner_id if row.state == "owned" else None


def the_group():
    return wait_for(lambda: ThrottleGroup.objects.filter(state="owned").first(), saying="the group has an owner")


def move(group, *, to):
    move_group(group.pk, to=to, made_by="a test", now=timezone.now())


def freeze_without_locks(cluster, owner):
    """
    Freeze the owner. Return True if it has no open transaction; otherwise let it continue and return False. The main
    manager would wait for locks of a frozen transaction until the owner has failed.
    """
    owner.send(signal.SIGSTOP)
    in_transaction = (
        "SELECT count(*) FROM pg_stat_activity WHERE starts_with(application_name, %s) AND xact_start IS NOT NULL"
    )
    if cluster.database.value(in_transaction, str(cluster.node_of(owner).id)):
        owner.send(signal.SIGCONT)
        return False
    return True


def assert_all_pages_written(cluster, site):
    """Assert that the output has exactly the pages of an undisturbed run."""
    assert held_by(cluster.output) == site.documents


def test_a_group_that_moves_back_and_forth_is_crawled_without_a_pause(cluster, serve):
    site = serve(pages=150, hosts=2, traps=0)
    managers = cluster.start("runmanager", "runmanager", "runworker", "runworker")[:2]
    one, two = (cluster.node_of(manager).id for manager in managers)
    job = cluster.make_job(site, min_gap=GAP, open_requests=1)

    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 30, saying="the crawl is in progress")
    group = the_group()
    for place in range(4):
        to = two if owner_of(group) == one else one
        move(group, to=to)
        wait_for(lambda to=to: owner_of(group) == to, saying="the group has its new owner")
        count = site.count_requests()
        wait_for(lambda count=count: site.count_requests() > count + 10, saying=f"the crawl goes on after move {place}")

    assert cluster.wait_for_end(job) == "finished"
    assert_all_pages_written(cluster, site)
    requests = site.requests()
    assert longest_gap(requests[10:]) < GAP + TWO_BEATS
    assert max(Counter(request.url for request in requests).values()) == 1


def test_a_move_finishes_although_its_owner_is_killed(cluster, serve):
    site = serve(pages=200, hosts=2, traps=0, latency_ms=40)
    managers = cluster.start("runmanager", "runmanager", "runmanager", "runworker", "runworker")[:3]
    main = cluster.main(*managers)
    owner, heir = (manager for manager in managers if manager is not main)
    job = cluster.make_job(site)
    cluster.start_job(job)
    group = the_group()
    to = cluster.node_of(owner).id
    move(group, to=to)
    wait_for(lambda: owner_of(group) == to, saying="a manager that is not main owns the group")

    wait_for(lambda: freeze_without_locks(cluster, owner), saying="the owner is frozen between two transactions")
    move(group, to=cluster.node_of(heir).id)
    assert ThrottleGroup.objects.get(pk=group.pk).state == "releasing"
    owner.kill()

    wait_for(lambda: owner_of(group) == cluster.node_of(heir).id, saying="the group has its new owner")
    assert cluster.wait_for_end(job) == "finished"
    assert_all_pages_written(cluster, site)


def test_a_manager_that_starts_later_gets_its_share_during_the_crawl(cluster, serve):
    site = serve(pages=400, hosts=4, traps=0)
    (first, _worker) = cluster.start("runmanager", "runworker")
    pages = [site.plan.url(page) for page in range(200)]
    jobs = [
        make_job(urls=pages[place::4], policy=make_policy(min_gap=0.2), specification={"max_depth": 0})
        for place in range(4)
    ]
    for job in jobs:
        cluster.start_job(job)
    wait_for(lambda: len(set(_owned())) == 1 and len(_owned()) == 4, saying="one manager owns all groups")

    (second,) = cluster.start("runmanager")

    both = {cluster.node_of(first).id: 2, cluster.node_of(second).id: 2}
    wait_for(lambda: Counter(_owned()) == both, saying="each manager has two groups")
    wait_for(lambda: not Job.objects.exclude(phase="inactive").exists(), saying="all jobs have ended")
    assert sorted(request.url for request in site.requests()) == sorted(pages)


def test_a_drained_main_hands_over_all_groups_and_ends_without_an_error(cluster, serve):
    site = serve(pages=200, hosts=2, traps=0, latency_ms=40)
    managers = cluster.start("runmanager", "runmanager", "runworker")[:2]
    main = cluster.main(*managers)
    (other,) = (manager for manager in managers if manager is not main)
    job = cluster.make_job(site, min_gap=GAP, open_requests=1)
    cluster.start_job(job)
    group = the_group()
    main_id = cluster.node_of(main).id
    if owner_of(group) != main_id:
        move(group, to=main_id)
        wait_for(lambda: owner_of(group) == main_id, saying="the main owns the group")
    count = wait_for(lambda: (found := site.count_requests()) > 30 and found, saying="the crawl is in progress")

    drain_node(main_id, made_by="a test", now=timezone.now())

    wait_for(lambda: main.has_ended, saying="the drained process has ended")
    assert main.process.returncode == 0
    assert cluster.main(main, other) is other
    assert owner_of(group) == cluster.node_of(other).id
    wait_for(lambda: ClusterRequest.objects.get(kind="drain").state == "done", saying="the request has ended")
    assert cluster.wait_for_end(job) == "finished"
    assert_all_pages_written(cluster, site)
    assert longest_gap(site.requests()[count:]) < GAP + TWO_BEATS


def test_a_drained_worker_finishes_its_work_and_ends_without_an_error(cluster, serve):
    site = serve(pages=200, hosts=2, traps=0, latency_ms=40)
    _, leaving, _staying = cluster.start("runmanager", "runworker", "runworker")
    job = cluster.make_job(site)
    cluster.start_job(job)
    wait_for(lambda: site.count_requests() > 30, saying="the crawl is in progress")

    drain_node(cluster.node_of(leaving).id, made_by="a test", now=timezone.now())

    wait_for(lambda: leaving.has_ended, saying="the drained process has ended")
    assert leaving.process.returncode == 0
    assert cluster.wait_for_end(job) == "finished"
    assert_all_pages_written(cluster, site)
    assert max(Counter(request.url for request in site.requests()).values()) == 1


def _owned():
    return list(ThrottleGroup.objects.filter(state="owned").values_list("owner_id", flat=True))
