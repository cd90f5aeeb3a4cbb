"""Proves that policies, totals, parents, denials and back-offs limit the bins of the queue."""

import datetime as dt
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.lifecycle.document import Stage
from jobs.models import Bin, BinLimit, BinState, Lane, LaneState, QueueItem, ThrottlePolicy, ThrottleRule, Turn
from jobs.models.policy import BinPlacing
from jobs.queue.offering.stuff import stuff
from jobs.queue.pace import addresses, hosts, next_start
from jobs.queue.pace.close import ClosedTurn, Pace, Use, close_turns
from jobs.queue.pace.limits import read_limits, rebind_bins
from jobs.queue.release import release_of_lost_workers
from jobs.queue.rounds import Rounds
from jobs.queue.take import take
from jobs.throttling.back_off import CURVE
from jobs.throttling.limits import UNTIL_RELEASED
from jobs.throttling.next_start import LastUse, next_start_at, paid_until
from jobs.verbs import hosts as bins
from jobs.verbs import policies
from nodes.membership import leadership
from nodes.membership.fences import FenceRefused
from tests.support.cluster import NOON, elect_main, fall_silent, register_node, seconds
from tests.support.factories import (
    make_bin,
    make_documents,
    make_lane,
    make_policy,
    make_rule,
    make_running_job,
    state_of,
)

EVERY_DAY = [1, 2, 3, 4, 5, 6, 7]
LONG_AGO = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def crawl(manager, *hosts, documents=20, **policy):
    """Return a running job of a policy, with documents on each of these hosts."""
    running = make_running_job(manager, policy=make_policy(**{"min_gap": 0.0, "open_requests": 2, **policy}))
    for host in hosts:
        make_documents(make_lane(running.seed, host), [f"{host} {running.job.pk} {n}" for n in range(documents)])
    return running


def stuff_all(connection, running, *, workers=2, room=1000):
    return stuff(connection, manager=running.manager.id, group=running.group, room=room, workers=workers, now=NOON)


def take_turns(connection, worker):
    return take(connection, worker=worker.id, room=1000, idle=True, now=NOON).turns


def open_requests(name="a.example"):
    return BinState.objects.get(bin__name=name).open_requests


def everywhere(**facts):
    return make_policy(applies_everywhere=True, **{"open_requests": 1000, "min_gap": 0.0, **facts})


def opens_again(connection, running):
    """Return the time until which the lane sleeps, or None if it offers documents now."""
    LaneState.objects.update(ready_at=NOON)
    offered = stuff_all(connection, running).documents
    return None if offered else LaneState.objects.get().ready_at


def in_force(connection, bin_):
    return read_limits(connection, bins=[bin_.pk], now=NOON)[bin_.pk].limits


# --- Effective limits -----------------------------------------------------------------------------


def test_the_strictest_limits_of_two_jobs_hold_on_a_shared_host(connection, manager):
    crawl(manager, "a.example", open_requests=5, min_gap=1.0)
    crawl(manager, "a.example", open_requests=3, starts=6, period="minute", bytes_per_second=1000)

    limits = in_force(connection, Bin.objects.get())

    assert (limits.requests, limits.gap, limits.bytes_per_second) == (3, 10.0, 1000)


def test_a_policy_for_all_hosts_limits_every_job(connection, manager):
    crawl(manager, "a.example", open_requests=5)
    everywhere(min_gap=4.0)

    assert in_force(connection, Bin.objects.get()).gap == 4.0
    free = make_bin("free.example", usual_requests=2, usual_gap=1.0)
    assert (in_force(connection, free).requests, in_force(connection, free).gap) == (2, 4.0)


def test_an_edited_policy_applies_when_its_limits_are_next_read(connection, manager):
    running = crawl(manager, "a.example", open_requests=5, min_gap=1.0)
    assert in_force(connection, Bin.objects.get()).gap == 1.0

    ThrottlePolicy.objects.filter(pk=running.seed.policy_id).update(min_gap=7.0)
    assert in_force(connection, Bin.objects.get()).gap == 7.0
    ThrottleRule.objects.create(
        policy_id=running.seed.policy_id, position=1, pattern="a.*", days=EVERY_DAY, open_requests=1
    )

    assert in_force(connection, Bin.objects.get()).requests == 1


def test_a_gap_that_becomes_shorter_or_longer_counts_from_the_last_start(connection, manager):
    running = crawl(manager, "a.example", min_gap=3600.0)
    BinState.objects.update(last_start_at=NOON - seconds(60))

    assert opens_again(connection, running) == NOON + seconds(3540 - 1)
    ThrottlePolicy.objects.update(min_gap=7200.0)
    assert opens_again(connection, running) == NOON + seconds(7140 - 1)
    ThrottlePolicy.objects.update(min_gap=10.0)
    assert opens_again(connection, running) is None


def test_a_taken_turn_waits_for_the_rest_of_its_gap(connection, manager, worker):
    running = crawl(manager, "a.example", min_gap=30.0)
    stuff_all(connection, running)
    connection.execute("UPDATE jobs_binstate SET last_start_at = clock_timestamp() - interval '10 seconds'")

    (turn,) = take_turns(connection, worker)

    assert 15 < turn.pace.wait <= 20


def test_bytes_delay_requests_only_while_they_are_limited(connection, manager):
    running = crawl(manager, "a.example", bytes_per_second=1000)
    BinState.objects.update(last_start_at=NOON - seconds(60), not_before=NOON + seconds(600))

    assert opens_again(connection, running) == NOON + seconds(600 - 1)
    ThrottlePolicy.objects.update(bytes_per_second=None)
    assert opens_again(connection, running) is None


def test_an_edited_limit_of_bytes_applies_to_bytes_already_read(connection, manager):
    running = crawl(manager, "a.example", bytes_per_second=1000)
    BinState.objects.update(last_start_at=NOON - seconds(60), not_before=NOON + seconds(600), paid_rate=1000)

    ThrottlePolicy.objects.update(bytes_per_second=500)
    assert opens_again(connection, running) == NOON + seconds(1260 - 1)
    ThrottlePolicy.objects.update(bytes_per_second=4000)
    assert opens_again(connection, running) == NOON + seconds(105 - 1)
    ThrottlePolicy.objects.update(bytes_per_second=100_000)
    assert opens_again(connection, running) is None


def test_a_lane_that_waits_for_its_byte_limit_is_woken_by_a_looser_limit(connection, manager):
    running = crawl(manager, "a.example", bytes_per_second=1000)
    BinState.objects.update(last_start_at=NOON, not_before=NOON + seconds(600), paid_rate=1000)
    assert opens_again(connection, running)
    rounds, groups = Rounds(), [running.group.id]
    assert rounds.go_on(connection, groups=groups, now=NOON + seconds(2)) == 0

    ThrottlePolicy.objects.update(bytes_per_second=600_000)

    assert rounds.go_on(connection, groups=groups, now=NOON + seconds(4)) == 1


moments = st.none() | st.floats(-1e4, 1e4).map(lambda offset: NOON + seconds(round(offset, 6)))
bytes_a_second = st.none() | st.floats(1.0, 1e12)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(last_start_at=moments, not_before=moments, paid_rate=bytes_a_second, rate=st.floats(1.0, 1e12))
def test_the_database_and_python_convert_a_byte_debt_to_equal_times(
    connection, last_start_at, not_before, paid_rate, rate
):
    use = LastUse(last_start_at, not_before, paid_rate)
    converted = connection.execute(
        f"""
        SELECT {next_start.paid_until("state", rate="%(rate)s::float")}
          FROM (SELECT %(last_start_at)s::timestamptz AS last_start_at, %(not_before)s::timestamptz AS not_before,
                       %(paid_rate)s::float AS paid_rate) AS state
        """,
        use._asdict() | {"rate": rate},
    ).fetchone()[0]

    expected = paid_until(use, rate)

    assert (converted is None) == (expected is None)
    assert converted is None or abs(converted - expected) < seconds(0.001)


def test_the_byte_debts_of_two_turns_are_stored_with_their_rates(connection, manager, worker):
    running = crawl(manager, "a.example", bytes_per_second=1000)
    stuff_all(connection, running, workers=1)
    (turn,) = take_turns(connection, worker)
    connection.execute(
        "UPDATE jobs_binstate SET last_start_at = clock_timestamp() - interval '10 s', paid_rate = 100,"
        " not_before = clock_timestamp() + interval '100 s'"
    )

    now = time.monotonic()
    close_turns(connection, turns=[ClosedTurn(turn.id, Pace(now, now + 50, 1000.0))], now=NOON)

    state = BinState.objects.get()
    # The older debt of 110 s at a tenth of the rate is 11 s at the present rate.
    assert state.paid_rate == 1000.0
    assert 49 < (state.not_before - state.last_start_at).total_seconds() < 51


def test_hosts_with_whole_and_fractional_gaps_are_handed_out_together(connection, manager, worker):
    running = crawl(manager, "a.example", "b.example", min_gap=0.5)
    make_rule(running.seed.policy, "b.example", min_gap=3)

    stuff_all(connection, running)

    assert {turn.bin: turn.pace.gap for turn in take_turns(connection, worker)} == {
        "a.example": 0.5,
        "b.example": 3.0,
    }


def test_open_turns_above_a_lowered_limit_are_counted(connection, manager, worker):
    running = crawl(manager, "a.example", open_requests=5)
    stuff_all(connection, running, workers=1)
    bin_ = Bin.objects.get()
    assert read_limits(connection, bins=[bin_.pk], now=NOON)[bin_.pk].is_kept

    ThrottlePolicy.objects.update(open_requests=2)

    assert not read_limits(connection, bins=[bin_.pk], now=NOON)[bin_.pk].is_kept


def test_the_query_for_limits_of_a_host_is_planned_once(connection, manager):
    crawl(manager, "a.example")
    # Other tests have used this session.
    connection.execute("DEALLOCATE ALL")

    for _ in range(20):
        in_force(connection, Bin.objects.get())

    planned = "SELECT custom_plans FROM pg_prepared_statements WHERE strpos(statement, 'open_requests') > 0 AND generic_plans > 0"
    # PostgreSQL makes five custom plans before it keeps a generic one.
    assert connection.execute(planned).fetchall() == [(5,)]


# --- Denials --------------------------------------------------------------------------------------


def test_documents_of_a_denied_host_are_claimed_as_denied_and_use_no_place(connection, manager, worker):
    policy = everywhere(total_open_requests=1)
    ThrottleRule.objects.create(policy=policy, position=1, pattern="*.denied.example", days=EVERY_DAY, denies=True)
    running = crawl(manager, "x.denied.example", "a.example")

    stuff_all(connection, running)

    turns = {turn.bin: turn for turn in take_turns(connection, worker)}
    assert turns["x.denied.example"].is_denied
    assert not turns["a.example"].is_denied
    assert turns["a.example"].requests == 1


def test_documents_of_a_host_with_a_timed_denial_wait_for_its_end(connection, manager, worker):
    running = crawl(manager, "a.example", min_gap=0.0)
    make_rule(running.seed.policy, "*.example", denies=True, from_time=dt.time(9), to_time=dt.time(17))

    assert opens_again(connection, running) == NOON.replace(hour=17)

    over = NOON.replace(hour=17)
    facts = {"manager": running.manager.id, "group": running.group, "room": 1000, "workers": 1}
    assert stuff(connection, **facts, now=over).documents == 20
    (turn,) = take_turns(connection, worker)
    assert not turn.is_denied


def test_a_document_that_waits_for_a_denial_continues_without_its_rule(connection, manager):
    running = crawl(manager, "a.example", min_gap=0.0)
    make_rule(running.seed.policy, "*.example", denies=True, from_time=dt.time(9), to_time=dt.time(17))
    assert opens_again(connection, running) == NOON.replace(hour=17)
    rounds, groups = Rounds(), [running.group.id]
    assert rounds.go_on(connection, groups=groups, now=NOON) == 0

    ThrottleRule.objects.all().delete()

    assert rounds.go_on(connection, groups=groups, now=NOON + seconds(2)) == 1


def test_a_stopped_host_is_closed_until_its_release(connection, manager):
    bin_ = make_bin()
    Bin.objects.update(stopped_at=NOON)
    assert in_force(connection, bin_).closed_until == UNTIL_RELEASED

    Bin.objects.update(stopped_at=None)
    assert in_force(connection, bin_).closed_until is None


# --- Parents --------------------------------------------------------------------------------------


def test_hosts_of_a_policy_never_exceed_its_total_of_open_requests(connection, manager, worker):
    running = crawl(manager, "a.example", "b.example", "c.example", total_open_requests=3)

    stuff_all(connection, running)
    turns = take_turns(connection, worker)
    stuff_all(connection, running)

    assert sum(turn.requests for turn in turns) == 3
    assert take_turns(connection, worker) == []
    assert open_requests(str(running.seed.policy_id)) == 3


def test_a_closing_turn_returns_its_share_of_its_parents(connection, manager, worker):
    running = crawl(manager, "a.example", "b.example", total_open_requests=2, total_starts=1, total_period="second")
    stuff_all(connection, running, workers=1)
    turns = take_turns(connection, worker)
    total = Bin.objects.get(namespace=Bin.POLICY)
    # Each turn may have both requests of the total, because its worker counts them together.
    assert [pace.requests for turn in turns for pace in turn.parents] == [2, 2]
    assert state_of(total).open_requests == 4
    assert read_limits(connection, bins=[total.pk], now=NOON)[total.pk].is_kept

    asked = Pace(time.monotonic() - 5)
    closed = [ClosedTurn(turn.id, None, parents={turn.parents[0].bin_id: asked}) for turn in turns]
    close_turns(connection, turns=closed, now=NOON)

    state = state_of(total)
    assert (state.open_requests, state.open_turns) == (0, 0)
    ago = connection.execute(
        "SELECT extract(epoch FROM clock_timestamp() - last_start_at) FROM jobs_binstate WHERE bin_id = %s", [total.pk]
    ).fetchone()[0]
    assert 5 <= ago < 10


def test_a_closing_turn_counts_the_requests_of_its_host_and_its_parents(connection, manager, worker):
    running = crawl(manager, "a.example", "b.example", total_open_requests=9)
    stuff_all(connection, running, workers=1)
    turns = take_turns(connection, worker)
    above = turns[0].parents[0].bin_id

    closed = [
        ClosedTurn(turn.id, None, parents={above: None}, use=Use(3, 500), uses_above={above: Use(3, 500)})
        for turn in turns
    ]
    close_turns(connection, turns=closed, now=NOON)
    close_turns(connection, turns=closed, now=NOON)

    counted = {state.bin.name: (state.starts, state.bytes_read) for state in BinState.objects.all()}
    assert counted == {"a.example": (3, 500), "b.example": (3, 500), str(running.seed.policy_id): (6, 1000)}
    assert list(Turn.objects.values_list("starts", "bytes_read")) == [(3, 500)] * 2


def test_a_total_rate_is_kept_by_one_worker(connection, manager, worker):
    other = register_node(connection, "worker")
    running = crawl(manager, "a.example", "b.example", "c.example", documents=2, total_starts=2, total_period="second")
    stuff_all(connection, running)

    turns = take_turns(connection, worker)
    assert {turn.bin for turn in turns} == {"a.example", "b.example", "c.example"}
    make_documents(make_lane(running.seed, "d.example"), ["later"])
    stuff_all(connection, running)

    assert {pace.gap for turn in turns for pace in turn.parents} == {0.5}
    assert take_turns(connection, other) == []
    assert "d.example" in {turn.bin for turn in take_turns(connection, worker)}


def test_hosts_with_one_ip_address_share_its_limits(connection, manager, worker):
    address = make_bin("192.0.2.1", namespace=Bin.ADDRESS)
    running = crawl(manager, "a.example", "b.example", "c.example", per_address=True, open_requests=2)
    Bin.objects.filter(name__in=["a.example", "b.example"]).update(parent=address)
    BinLimit.objects.create(bin=address, job=running.job, policy=running.seed.policy)

    stuff_all(connection, running)

    requests = {}
    for turn in take_turns(connection, worker):
        requests[turn.bin] = requests.get(turn.bin, 0) + turn.requests
    assert requests.pop("c.example") == 2
    assert sum(requests.values()) == 2


def know_host(connection, running, host, address):
    lane = running.seed.lanes.get(bin__name=host)
    hosts.store_robots_reports(connection, reports=[hosts.HostReport(lane.pk, None, address)])


def parent_of(host):
    parent = Bin.objects.get(name=host).parent
    return parent and (parent.namespace, parent.name)


def test_a_host_gets_its_ip_address_as_parent_if_a_policy_limits_addresses(connection, manager):
    gentle = crawl(manager, "a.example", "b.example", per_address=True, min_gap=2.0)
    quick = crawl(manager, "c.example")
    for running, host in ((gentle, "a.example"), (gentle, "b.example"), (quick, "c.example")):
        know_host(connection, running, host, "192.0.2.1")

    assert parent_of("a.example") == parent_of("b.example") == (Bin.ADDRESS, "192.0.2.1")
    assert parent_of("c.example") is None
    assert in_force(connection, Bin.objects.get(namespace=Bin.ADDRESS)).gap == 2.0


HOSTS = [f"{letter}.example" for letter in "abcde"]


@pytest.fixture
def two_at_once(monkeypatch):
    monkeypatch.setattr(addresses, "_PLACED_AT_ONCE", 2)


@pytest.fixture
def known(connection, manager):
    """Return a job whose hosts all have a known IP address, before any policy limits IP addresses."""
    running = crawl(manager, *HOSTS, documents=1)
    for host in HOSTS:
        know_host(connection, running, host, "192.0.2.1")
    assert not placed()
    return running


def placed():
    """Return the hosts that have the IP address as their parent."""
    return set(Bin.objects.filter(parent__name="192.0.2.1").values_list("name", flat=True))


def place_all(connection, term):
    """Give all waiting bins their IP address as parent. Return the number of bins that each step has read."""
    steps = []
    while BinPlacing.objects.exists():
        steps.append(addresses.place_some(connection, term=term))
    return steps


def test_known_hosts_get_their_ip_address_as_parent_when_a_policy_needs_it(connection, manager, known, two_at_once):
    policies.change(known.seed.policy_id, per_address=True, min_gap=3.0, everywhere=True)

    steps = place_all(connection, elect_main(connection, manager))

    assert steps[:2] == [2, 2]
    assert steps[-1] == 0
    assert placed() == set(HOSTS)
    assert in_force(connection, Bin.objects.get(namespace=Bin.ADDRESS)).gap == 3.0


def test_a_new_main_manager_continues_to_place_the_remaining_hosts(connection, manager, known, two_at_once):
    policies.change(known.seed.policy_id, per_address=True, everywhere=True)
    first = elect_main(connection, manager)
    addresses.place_some(connection, term=first)
    leadership.resign(connection, term=first)

    heir = register_node(connection, "manager")
    second = leadership.elect(connection, node_id=heir.id, scope=heir.scope, seen_term=first.term)

    with pytest.raises(FenceRefused):
        addresses.place_some(connection, term=first)
    assert placed() == set(HOSTS[:2])
    addresses.place_some(connection, term=second)
    assert placed() == set(HOSTS[:4])
    place_all(connection, second)
    assert placed() == set(HOSTS)


def test_a_policy_stored_again_meanwhile_makes_all_hosts_checked_again(connection, manager, known, two_at_once):
    term = elect_main(connection, manager)
    for _ in range(2):
        policies.change(known.seed.policy_id, per_address=True, everywhere=True)
        addresses.place_some(connection, term=term)
        assert BinPlacing.objects.get().after == Bin.objects.get(name=HOSTS[1]).pk

    place_all(connection, term)
    assert placed() == set(HOSTS)


def test_only_a_policy_of_all_hosts_and_ip_addresses_checks_all_hosts(connection, manager, known):
    term = elect_main(connection, manager)
    policies.change(known.seed.policy_id, min_gap=3.0, everywhere=True)
    assert not BinPlacing.objects.exists()

    facts = {"name": "all", "applies_everywhere": True, "per_address": True, "open_requests": 9, "min_gap": 0.0}
    policies.create(unlimited=True, everywhere=True, **facts)
    place_all(connection, term)

    assert placed() == set(HOSTS)


def test_the_hosts_of_a_seed_get_ip_addresses_as_parents_with_its_policy(connection, manager, known):
    before, gentle = known.seed.policy, make_policy(per_address=True)

    with connection.cursor() as cursor:
        known.seed.policy = gentle
        known.seed.save()
        rebind_bins(cursor, seed_id=known.seed.pk, before=before.pk)
    place_all(connection, elect_main(connection, manager))

    assert placed() == set(HOSTS)


def test_a_seed_that_changes_its_policy_loses_the_old_address_limits(connection, manager):
    running = crawl(manager, "a.example", per_address=True, min_gap=9.0)
    know_host(connection, running, "a.example", "192.0.2.1")
    slow, quick = running.seed.policy, make_policy(min_gap=0.5, per_address=True)

    with connection.cursor() as cursor:
        running.seed.policy = quick
        running.seed.save()
        rebind_bins(cursor, seed_id=running.seed.pk, before=slow.pk)

    assert in_force(connection, Bin.objects.get(namespace=Bin.ADDRESS)).gap == 0.5


def test_requests_of_a_lost_worker_are_returned_to_the_parents(connection, manager, worker):
    main = register_node(connection, "manager")
    term = elect_main(connection, main)
    running = crawl(manager, "a.example", total_open_requests=2, total_starts=1, total_period="second")
    stuff_all(connection, running)
    take_turns(connection, worker)

    leadership.mark_failed(connection, verdict=fall_silent(connection, worker), term=term)
    release_of_lost_workers(connection, scope=term.scope, term=term, now=NOON)

    total = BinState.objects.get(bin__namespace=Bin.POLICY)
    assert (total.open_requests, total.open_turns, open_requests()) == (0, 0, 0)
    # A request may have started just now.
    assert total.last_start_at is not None
    assert not Turn.objects.filter(closed_at=None).exists()


def test_bytes_of_a_lost_worker_hold_back_its_host_for_a_window(connection, manager, worker):
    main = register_node(connection, "manager")
    term = elect_main(connection, main)
    running = crawl(manager, "a.example", bytes_per_second=1000)
    stuff_all(connection, running)
    take_turns(connection, worker)
    BinState.objects.update(not_before=LONG_AGO, paid_rate=1000)

    leadership.mark_failed(connection, verdict=fall_silent(connection, worker), term=term)
    release_of_lost_workers(connection, scope=term.scope, term=term, now=NOON)

    state = BinState.objects.get()
    assert state.paid_rate is None
    assert 9 < (state.not_before - state.last_start_at).total_seconds() <= 10.1
    assert next_start_at(state, gap=0.0, bytes_per_second=1e9) == state.not_before


# --- Back-off -------------------------------------------------------------------------------------


def seconds_left(connection):
    row = connection.execute("SELECT extract(epoch FROM back_off_until - clock_timestamp())::float FROM jobs_bin")
    return row.fetchone()[0]


def test_a_host_backs_off_longer_with_each_refusal(connection, manager):
    lane = crawl(manager, "a.example").seed.lanes.get()
    waited = []
    for _ in range(len(CURVE) + 2):
        hosts.back_off(connection, lane_id=lane.pk, asked=None)
        waited.append(round(seconds_left(connection)))
        Bin.objects.update(back_off_until=None)

    assert waited == [*CURVE, CURVE[-1], CURVE[-1]]


def test_simultaneous_refusals_of_a_host_raise_its_back_off_by_one_level(connection, manager):
    lane = crawl(manager, "a.example").seed.lanes.get()

    for _ in range(5):
        hosts.back_off(connection, lane_id=lane.pk, asked=None)

    assert Bin.objects.get().back_off_level == 1
    assert seconds_left(connection) <= CURVE[0]


def test_the_longest_delay_that_a_host_requested_is_applied(connection, manager):
    lane = crawl(manager, "a.example").seed.lanes.get()

    hosts.back_off(connection, lane_id=lane.pk, asked=3600.0)
    hosts.back_off(connection, lane_id=lane.pk, asked=10.0)

    assert 3590 < seconds_left(connection) <= 3600


answers = st.tuples(
    st.sampled_from(["well", "too much", "too much, after its time"]), st.sampled_from([None, 0, 7, 900])
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(answers, max_size=20))
def test_a_back_off_grows_by_level_and_each_good_answer_lowers_the_level(connection, manager, several):
    lane = Lane.objects.first() or crawl(manager, "a.example").seed.lanes.get()
    Bin.objects.update(back_off_level=0, back_off_until=None)
    level = 0
    for answer, asked in several:
        if answer == "well":
            hosts.lower_back_off_levels(connection, lanes=[lane.pk])
            level = max(0, level - 1)
        else:
            if answer == "too much, after its time":
                Bin.objects.update(back_off_until=LONG_AGO)
            before, earliest = Bin.objects.get().back_off_until or LONG_AGO, clock(connection)
            level = max(1, level) if before > earliest else min(len(CURVE), level + 1)
            hosts.back_off(connection, lane_id=lane.pk, asked=asked)
            wait = seconds(CURVE[level - 1] if asked is None else asked)
            until = Bin.objects.get().back_off_until
            assert max(before, earliest + wait) <= until <= max(before, clock(connection) + wait)
        assert Bin.objects.get().back_off_level == level


def clock(connection):
    return connection.execute("SELECT clock_timestamp()").fetchone()[0]


def test_after_a_back_off_was_ended_waiting_documents_start_at_full_speed(connection, manager, worker):
    running = crawl(manager, "a.example")
    lane = running.seed.lanes.get()
    for _ in range(3):
        hosts.back_off(connection, lane_id=lane.pk, asked=3600.0)
        Bin.objects.update(back_off_until=NOON + seconds(3600))
    assert opens_again(connection, running) == NOON + seconds(3600)

    bins.end_back_off(lane.bin_id, made_by="ada", now=NOON)
    stuff_all(connection, running, workers=1)

    (turn,) = take_turns(connection, worker)
    assert (len(turn.documents), turn.requests, turn.is_trial) == (20, 2, False)
    hosts.back_off(connection, lane_id=lane.pk, asked=None)
    assert Bin.objects.get().back_off_level == 1


def test_only_failed_documents_of_a_host_are_due_when_its_back_off_ends(connection, manager):
    running = crawl(manager, "a.example", "b.example", documents=0)
    here, elsewhere = running.seed.lanes.order_by("bin__name")
    later, waits = NOON + seconds(3600), {"seq": None, "check_time": NOON + seconds(3600)}
    make_documents(here, ["refused"], failures=2, result_code="429", **waits)
    make_documents(here, ["not due"], **waits)
    make_documents(here, ["read"], stage=Stage.DONE, **waits)
    make_documents(elsewhere, ["refused elsewhere"], failures=2, **waits)
    LaneState.objects.update(ready_at=later)
    Bin.objects.filter(pk=here.bin_id).update(back_off_level=1)

    bins.end_back_off(here.bin_id, made_by="ada", now=NOON)

    due = QueueItem.objects.filter(check_time=NOON).values_list("identifier", "failures")
    assert list(due) == [("http://a.example/refused", 2)]
    assert QueueItem.objects.filter(check_time=later).count() == 3
    assert (state_of(here).ready_at, state_of(elsewhere).ready_at) == (NOON, later)


def test_a_host_gets_one_document_at_a_time_after_its_back_off(connection, manager, worker):
    running = crawl(manager, "a.example")
    lane = running.seed.lanes.get()
    for _ in range(2):
        hosts.back_off(connection, lane_id=lane.pk, asked=None)
        Bin.objects.update(back_off_until=None)
    sizes = []
    for _ in range(3):
        stuff_all(connection, running, workers=1)
        (turn,) = take_turns(connection, worker)
        sizes.append((len(turn.documents), turn.requests, turn.is_trial))
        hosts.lower_back_off_levels(connection, lanes=[lane.pk])
        close_turns(connection, turns=[ClosedTurn(turn.id, None)], filled=[lane.pk], now=NOON)

    assert sizes == [(1, 1, True), (1, 1, True), (18, 2, False)]
    assert Bin.objects.get().back_off_level == 0
