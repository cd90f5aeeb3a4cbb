"""Proves that scheduled work starts within seconds of its moment, however much other work waits."""

import datetime as dt
import time
import uuid

import pytest
from django.db import connection
from django.utils import timezone

from jobs.lifecycle.job import Kind
from jobs.lifecycle.schedule import Window
from jobs.models import Activity, Job, JobEvent, LaneState, OutputConnection, SearchDocument
from jobs.verbs import control, policies
from tests.support.factories import make_job, make_output, make_policy
from tests.support.processes import wait_for

# Longest delay of scheduled work (threads of ManifoldCF wake every ten seconds), and of a new job's first request
# (seconds).
SOON = 10.0
NEWCOMERS_PATIENCE = 5.0

# Statement that creates due documents in the only lane of a running job. The caller sets their number.
BACKLOG = """
INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, seq, action, depth,
                            redirects)
SELECT md5(%(job)s || '/' || n)::uuid, %(job)s, lane.id, %(host)s || '/nothing/' || n, 0, false, false, 1,
       (1::bigint << 56) + nextval('jobs_document_number'), 0, 0, 0
  FROM generate_series(1, %(documents)s) AS n, jobs_lane AS lane JOIN jobs_seed AS seed ON seed.id = lane.seed_id
 WHERE seed.job_id = %(job)s
"""


@pytest.fixture
def daemons(world, cluster):
    """Start a manager and a worker that know the scriptable connector."""
    cluster.start("runmanager", "runworker")
    return cluster


def seconds(number):
    return dt.timedelta(seconds=number)


def times_in_log(world, what):
    return [entry["at"] for entry in world.log() if entry["what"] == what]


def test_a_job_starts_reseeds_expires_and_ends_within_seconds(daemons, world):
    # Each seeding reads the seed again and postpones its expiry, so the other document expires.
    world.put("a", links=["b"])
    world.put("b")
    facts = {"kind": Kind.CONTINUOUS, "reseed_after": seconds(2), "expire_after": seconds(5)}
    job = world.make_job(seeds=["a"], outputs=[make_output(daemons.output)], **facts)
    asked_at = time.time()
    daemons.start_job(job)

    wait_for(lambda: Activity.objects.filter(activity="document deletion").exists(), saying="a document expired")
    assert times_in_log(world, "process")[0] - asked_at < SOON
    read, gone = (
        Activity.objects.filter(activity=name, entity__endswith="b").earliest("started_at").started_at
        for name in ("document ingest", "document deletion")
    )
    assert gone - read < seconds(5 + SOON)
    wait_for(lambda: len(times_in_log(world, "seed")) >= 3, saying="the job was seeded three times")
    first, second, third = times_in_log(world, "seed")[:3]
    assert max(second - first, third - second) < 2 + SOON
    control.abort(job.pk, made_by="a test", now=timezone.now())
    assert daemons.wait_for_end(job, within=SOON) == "aborted"


def test_a_job_waits_within_seconds_of_the_end_of_its_window(daemons, world):
    world.put("a", links=["b"], waits_for="go")
    now = timezone.now()
    open_for = seconds(now.second + 20)
    window = Window(hours=(now.hour,), minutes=(now.minute,), duration=open_for)
    job = world.make_job(seeds=["a"], start_method="window_inside", windows=[window], now=now)

    wait_for(lambda: Job.objects.get(pk=job.pk).window_ends_at, saying="the window started the job")
    ends_at = Job.objects.get(pk=job.pk).window_ends_at
    wait_for(
        lambda: JobEvent.objects.filter(job=job, kind="wait").exists(),
        within=60,
        saying="the job waits after its window",
    )

    assert JobEvent.objects.get(job=job, kind="wait").at - ends_at < seconds(SOON)


@pytest.mark.parametrize("documents", [100_000])
def test_a_new_job_sends_its_first_request_in_seconds_despite_a_backlog(cluster, serve, documents):
    site = serve(pages=20, hosts=2, traps=0)
    first_host, other_host = site.plan.origins
    cluster.start("runmanager", "runworker")
    long = make_job("long", urls=[f"{first_host}/"], policy=make_policy(open_requests=4, min_gap=0.1))
    cluster.start_job(long)
    wait_for(lambda: site.count_requests() > 1, saying="the long job sends requests")
    with connection.cursor() as cursor:
        cursor.execute(BACKLOG, {"job": long.pk, "host": first_host, "documents": documents})

    newcomer = make_job("new", urls=[f"{other_host}/"], policy=make_policy(open_requests=4))
    cluster.start_job(newcomer)

    wait_for(
        lambda: any(request.url.startswith(other_host) for request in site.requests()),
        within=NEWCOMERS_PATIENCE,
        saying="the new job has sent a request",
    )


# Statement that creates hosts with one page each, requested a minute ago, whose lanes sleep until an hour after that
# request.
_SLEEPERS = """
WITH bin AS (
    INSERT INTO jobs_bin (namespace, name, "interval", is_known)
    SELECT 'web', 'h' || n || '.example', 0, true FROM generate_series(1, %(hosts)s) AS n RETURNING id
), state AS (
    INSERT INTO jobs_binstate (bin_id, last_start_at) SELECT id, now() - interval '1 min' FROM bin
), bound AS (
    INSERT INTO jobs_binlimit (bin_id, job_id, policy_id) SELECT id, %(job)s, %(policy)s FROM bin
), lane AS (
    INSERT INTO jobs_lane (seed_id, bin_id) SELECT %(seed)s, id FROM bin RETURNING id, seed_id, bin_id
), asleep AS (
    INSERT INTO jobs_lanestate (lane_id, seed_id, bin_id, ready_at) SELECT id, seed_id, bin_id, now() + interval '59 min' FROM lane
)
INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, seq, action, depth, redirects)
SELECT md5(id::text)::uuid, %(job)s, id, 'http://here.example/' || id, 0, false, false, 1, (1::bigint << 56) + id, 0, 0, 0 FROM lane
"""
# Number of hosts. At its usual pace, the scan for lost wake-ups takes half a minute for them.
HOSTS = 10_000


def test_thousands_of_sleeping_hosts_continue_soon_after_their_gap_is_cut(cluster):
    policy = make_policy(min_gap=3600.0)
    job = make_job(urls=["http://a.example/"], policy=policy)
    cluster.start("runmanager")
    cluster.start_job(job)
    wait_for(lambda: Job.objects.get().phase == "active", saying="the job is active")
    with connection.cursor() as cursor:
        cursor.execute(_SLEEPERS, {"hosts": HOSTS, "job": job.pk, "seed": job.seeds.get().pk, "policy": policy.pk})
    asleep = LaneState.objects.filter(ready_at__gt=timezone.now() + dt.timedelta(minutes=10))
    assert asleep.count() == HOSTS

    policies.change(policy.pk, min_gap=1.0, everywhere=False)

    wait_for(lambda: not asleep.exists(), within=10, saying="all lanes are awake")


def test_an_idle_worker_indexes_texts_that_another_worker_left(cluster):
    """A killed worker leaves texts that it has written, and another partition sends them without their vectors."""
    now = timezone.now()
    text = SearchDocument.objects.create(
        output=OutputConnection.objects.create(name="search", connector="search"),
        hash=uuid.UUID(int=1),
        url="http://a.example/",
        text="a wombat",
        fetched_at=now,
        written_at=now,
    )

    cluster.start("runworker")

    wait_for(lambda: SearchDocument.objects.get(pk=text.pk).vector is not None, saying="the text is indexed")
