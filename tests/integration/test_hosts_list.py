"""Proves that the list of hosts shows the busiest hosts, with the source of each limit, at a bounded cost."""

import json

import pytest
from django.db import connection as django_connection
from django.test.utils import CaptureQueriesContext

from jobs.models import Bin, BinState, CounterDelta, Job, LaneState, PolicyShare, ThrottleGroup, ThrottlePolicy
from jobs.queries.hosts import lines, waiting
from jobs.queries.hosts.lines import read_host_statuses
from jobs.queries.hosts.selection import HostFilter, find_busiest, find_hosts
from jobs.queries.jobs.facts import read_next_ready_at
from jobs.queries.meter import BYTES, STARTS
from jobs.queue.offering.stuff import stuff
from jobs.queue.pace import hosts
from jobs.queue.take import take
from jobs.throttling.sources import Origin
from jobs.verdicts.causes import Cause
from jobs.words.limits import share_in_words
from nodes.models import Node
from tests.support.cluster import NOON, register_node, seconds
from tests.support.factories import make_bin, make_documents, make_lane, make_policy, make_rule, make_running_job
from tests.support.partitions import be_partition


def crawl(manager, *hosts, documents=20, **policy):
    """Return a running job of a policy, with documents on each of these hosts, and counters as a flush writes them."""
    running = make_running_job(manager, policy=make_policy(**policy))
    for host in hosts:
        lane = make_lane(running.seed, host)
        make_documents(lane, [f"{host} {running.job.pk} {n}" for n in range(documents)])
        CounterDelta.objects.create(
            job_id=running.job.pk, lane_id=lane.pk, run_no=1, measure="stage", stage=0, amount=documents
        )
    return running


def serve(connection, running, worker):
    stuff(connection, manager=running.manager.id, group=running.group, room=1000, workers=1, now=NOON)
    return take(connection, worker=worker.id, room=1000, idle=True, now=NOON).turns


def line(name="a.example", *, now=NOON):
    (found,) = read_host_statuses([Bin.objects.get(name=name).pk], now=now)
    return found


def shown(ids):
    names = Bin.objects.in_bulk(ids)
    return [names[id_].name for id_ in ids]


# --- Limits and their sources -----------------------------------------------------------------------


def test_each_limit_names_the_policy_with_the_strictest_value(connection, manager, worker):
    crawl(manager, "a.example", name="gentle", open_requests=1, min_gap=0.5)
    crawl(manager, "a.example", name="slow", open_requests=4, min_gap=4.0, bytes_per_second=9000)

    found = line()

    assert (found.limits.requests, found.limits.gap, found.allowed_starts_per_second) == (1, 4.0, 0.25)
    set_by = found.set_by
    assert (set_by.requests.policy, set_by.gap.policy, set_by.bytes_per_second.policy) == ("gentle", "slow", "slow")
    assert set_by.denied is None


def test_a_rule_is_named_by_number_with_the_time_of_its_policys_last_change(connection, manager):
    running = crawl(manager, "a.example", name="newspapers", min_gap=1.0)
    make_rule(running.seed.policy, "b.example", min_gap=60.0)
    make_rule(running.seed.policy, "*.example", min_gap=7.0)

    gap = line().set_by.gap

    changed_at = ThrottlePolicy.objects.get().changed_at
    assert (gap.policy, gap.source.rule, gap.since) == ("newspapers", 2, changed_at)
    assert changed_at > connection.execute("SELECT now() - interval '1 minute'").fetchone()[0]


def test_a_crawl_delay_comes_from_robots_txt_or_the_default(connection, manager):
    make_bin("a.example", interval=5.0, usual_requests=2, usual_gap=1.0)

    set_by = line().set_by

    assert (set_by.gap.source.origin, set_by.requests.source.origin) == (Origin.ROBOTS, Origin.USUAL)


def test_a_stopped_host_names_the_operator_and_the_reason(connection, manager):
    crawl(manager, "a.example")
    Bin.objects.update(stopped_at=NOON, stopped_by="ada", stopped_why="they called")

    found = line()

    assert found.verdict.cause == Cause.STOPPED
    assert (found.stopped_by, found.stopped_why, found.limited_since) == ("ada", "they called", NOON)
    assert found.allowed_starts_per_second == 0.0


def test_a_denied_host_names_its_rule(connection, manager):
    crawl(manager, "a.example")
    everywhere = make_policy("deny list", applies_everywhere=True, open_requests=1000)
    make_rule(everywhere, "*.example", denies=True)

    found = line()

    assert found.verdict.cause == Cause.DENIED
    assert (found.set_by.denied.policy, found.set_by.denied.source.rule) == ("deny list", 1)
    assert found.set_by.denied.is_everywhere


def test_an_overloaded_host_shows_the_start_and_end_of_its_back_off(connection, manager):
    running = crawl(manager, "a.example")
    hosts.back_off(connection, lane_id=running.seed.lanes.get().pk, asked=90.0)
    (now,) = connection.execute("SELECT clock_timestamp()").fetchone()

    found = line(now=now)

    assert (found.verdict.cause, found.back_off_level) == (Cause.BACK_OFF, 1)
    assert 80 < (found.verdict.until - now).total_seconds() <= 90
    assert abs((found.limited_since - now).total_seconds()) < 10
    LaneState.objects.update(ready_at=now)
    assert line(now=now).next_start_at == found.back_off_until


def test_limits_above_a_host_are_shown_with_their_policy(connection, manager, worker):
    running = crawl(manager, "a.example", "b.example", name="shop", total_starts=6, total_period="minute")
    make_policy("the cluster", applies_everywhere=True, open_requests=1000, total_open_requests=500)
    address = make_bin("192.0.2.1", namespace=Bin.ADDRESS)
    Bin.objects.filter(name="a.example").update(parent=address)
    serve(connection, running, worker)

    found = line()

    above = {(one.namespace, one.name): one for one in found.parents}
    assert set(above) == {("address", "192.0.2.1"), ("policy", "shop"), ("policy", "the cluster")}
    assert above["policy", "shop"].limits.gap == 10.0
    assert above["policy", "the cluster"].is_everywhere
    assert (found.verdict.cause, found.parent_of(found.verdict).name) == (Cause.PARENT, "shop")
    assert {one.name for one in line("b.example").parents} == {"shop", "the cluster"}


def test_a_share_of_a_total_is_shown_with_the_limits_of_all_partitions(connection, manager, worker, settings):
    running = crawl(manager, "a.example", name="shop", total_open_requests=8, total_starts=60, total_period="minute")
    serve(connection, running, worker)
    (whole,) = line().parents
    assert whole.whole is None

    be_partition(settings, "b")
    PolicyShare.objects.create(policy=running.seed.policy, parts=1, of=4)
    (shared,) = line().parents

    assert (shared.limits.requests, shared.limits.gap) == (2, 4.0)
    assert (shared.whole.requests, shared.whole.gap) == (8, 1.0)
    words = "2 at a time, one every 4 s here, of 8 at a time, one every 1 s in all partitions"
    assert share_in_words(shared.limits, shared.whole) == words


def test_the_list_of_hosts_says_if_documents_lack_a_worker_or_an_owner(connection, manager):
    crawl(manager, "a.example")
    assert line().verdict.cause == Cause.NO_WORKER

    register_node(connection, "worker")
    assert line().verdict.cause == Cause.NEXT

    ThrottleGroup.objects.update(state="free", owner=None)
    assert line().verdict.cause == Cause.NO_OWNER


def test_documents_of_a_paused_job_wait_for_the_job_and_not_for_the_host(connection, manager):
    crawl(manager, "a.example")
    assert (line().waiting, line().next_start_at) == (20, NOON)

    Job.objects.update(pause="paused")

    assert (line().waiting, line().verdict.cause) == (20, Cause.JOBS_HELD)
    assert line().next_start_at is None


def test_open_requests_are_those_in_flight_and_not_the_allowed_number(connection, manager, worker):
    running = crawl(manager, "a.example", open_requests=3, documents=5)
    serve(connection, running, worker)

    found = line()

    assert (found.in_progress, found.lent, found.open_requests, found.next_start_at) == (5, 3, None, None)
    Node.objects.filter(pk=worker.id).update(progress={"open": {str(found.id): 2}})
    assert (line().lent, line().open_requests) == (3, 2)


def test_rates_come_from_counts_of_closed_turns(connection, manager, monkeypatch):
    # All samples are taken at one moment, however busy the machine is.
    for meter in (STARTS, BYTES):
        monkeypatch.setattr(meter, "_clock", lambda: 1000.0)
    bin_ = make_bin("rates.example")
    for second in range(5, 21, 5):
        # The counts were stored at the end of the last turn. Another turn is open since then.
        BinState.objects.filter(bin=bin_).update(
            starts=second, bytes_read=1000 * second, open_turns=1, closed_at=NOON - seconds(25 - second)
        )
        found = line("rates.example", now=NOON)

    assert found.starts_per_second == pytest.approx(1.0)
    assert found.bytes_per_second == pytest.approx(1000)


# --- Selection of bins --------------------------------------------------------------------------------


def test_the_busiest_hosts_come_first_then_the_longest_waiting_hosts(connection, manager, worker):
    running = crawl(manager, "small.example", "big.example", min_gap=0.0, open_requests=2, documents=40)
    make_documents(running.seed.lanes.get(bin__name="big.example"), ["more", "and more"])
    serve(connection, running, worker)
    for host, age in (("late.example", 5), ("early.example", 50)):
        make_lane(running.seed, host, ready_at=NOON - seconds(age))
    make_bin("idle.example")

    assert shown(find_busiest()) == ["big.example", "small.example", "early.example", "late.example"]
    assert len(find_busiest(limit=2)) == 2


def test_hosts_are_found_and_paged_by_the_start_of_their_names(connection):
    for name in ("b.example", "a.example", "ab.example", "B.example", "c.example", "a%.example"):
        make_bin(name)
    make_bin("a.address", namespace=Bin.ADDRESS)

    first = find_hosts(HostFilter(name="a"), limit=2)
    second = find_hosts(HostFilter(name="a", after=first.next_key), limit=2)

    assert shown([*first.ids, *second.ids]) == ["a%.example", "a.example", "ab.example"]
    assert second.next_key is None
    assert shown(find_hosts(HostFilter(name="a%")).ids) == ["a%.example"]


@pytest.mark.parametrize(
    ("state", "facts"), [("stopped", {"stopped_at": NOON}), ("backing_off", {"back_off_level": 2})]
)
def test_hosts_can_be_filtered_by_state(connection, state, facts):
    for name in ("a.example", "b.example", "c.example"):
        make_bin(name)
    Bin.objects.exclude(name="b.example").update(**facts)

    assert shown(find_hosts(HostFilter(state=state)).ids) == ["a.example", "c.example"]
    assert shown(find_hosts(HostFilter(state=state, name="c")).ids) == ["c.example"]


# --- Cost ---------------------------------------------------------------------------------------------


def test_a_page_of_hosts_needs_equally_few_statements_for_any_number_of_hosts(connection, manager, worker):
    running = crawl(manager, *(f"h{number}.example" for number in range(30)), total_open_requests=100)
    serve(connection, running, worker)

    def statements(limit):
        with CaptureQueriesContext(django_connection) as seen:
            read_host_statuses(find_busiest(limit=limit), now=NOON)
        return len(seen)

    assert statements(30) == statements(1)


@pytest.fixture
def many_bins(connection, manager):
    """Add 20,000 bins, each with one lane of a running job. Nine in ten lanes sleep."""
    running = make_running_job(manager, policy=make_policy("many"))
    connection.execute(
        """
        INSERT INTO jobs_bin (namespace, name, "interval", is_known)
        SELECT 'web', 'h' || n || '.example', 0, true FROM generate_series(1, 20000) AS n;
        INSERT INTO jobs_binstate (bin_id) SELECT id FROM jobs_bin;
        INSERT INTO jobs_lane (seed_id, bin_id) SELECT (SELECT min(id) FROM jobs_seed), id FROM jobs_bin;
        INSERT INTO jobs_lanestate (lane_id, seed_id, bin_id, ready_at)
        SELECT id, seed_id, bin_id, CASE WHEN id %% 10 = 0 THEN now() END FROM jobs_lane;
        INSERT INTO jobs_counter (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
        SELECT (SELECT min(id) FROM jobs_job), id, 1, 'stage', stage, 0, '', 100 FROM jobs_lane, generate_series(0, 2) AS stage;
        INSERT INTO jobs_binlimit (bin_id, job_id, policy_id)
        SELECT id, (SELECT min(id) FROM jobs_job), (SELECT min(id) FROM jobs_throttlepolicy) FROM jobs_bin
        """.replace("%%", "%")
    )
    connection.execute(
        "ANALYZE jobs_bin, jobs_binstate, jobs_lane, jobs_lanestate, jobs_counter, jobs_binlimit, jobs_turn"
    )
    return running


def _sequential(connection, statement):
    """Return the tables that a statement reads with a sequential scan."""
    (plan,) = connection.execute(f"EXPLAIN (FORMAT JSON) {statement}").fetchone()
    found, steps = set(), [(plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"]]
    while steps:
        step = steps.pop()
        steps += step.get("Plans", [])
        if step["Node Type"] == "Seq Scan":
            found.add(step["Relation Name"])
    return found


def test_with_very_many_hosts_no_growing_table_is_read_as_a_whole(connection, many_bins, monkeypatch):
    statements = []
    for choose in (
        find_busiest,
        lambda: find_hosts(HostFilter(name="h5")).ids,
        lambda: find_hosts(HostFilter(after=14_000)).ids,
    ):
        with CaptureQueriesContext(django_connection) as seen:
            choose()
        statements += [query["sql"] for query in seen]
    grown = {"jobs_bin", "jobs_binstate", "jobs_lane", "jobs_lanestate", "jobs_counter", "jobs_binlimit"}

    for statement in statements:
        assert not _sequential(connection, statement) & grown, statement
    ids = find_busiest()
    assert len(ids) == 50
    for query in (lines._HOSTS, waiting._WAITING):
        cursor = connection.cursor()
        literal = query.replace("%(hosts)s", "'{" + ",".join(map(str, ids)) + "}'").replace("%(policy)s", "NULL")
        literal = literal.replace("%(job)s", "NULL").replace("%(lane)s", "NULL")
        assert not _sequential(cursor, literal) & grown


def test_the_first_ready_lane_is_found_without_reading_other_lanes(connection, many_bins):
    with CaptureQueriesContext(django_connection) as seen:
        ready_at = read_next_ready_at([many_bins.job.pk])

    first = min(
        ready_at for (ready_at,) in connection.execute("SELECT ready_at FROM jobs_lanestate WHERE ready_at IS NOT NULL")
    )
    assert ready_at == first
    (statement,) = [query["sql"] for query in seen if "min(lane.ready_at)" in query["sql"]]
    (plan,) = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}").fetchone()
    plan = (plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 50
