"""
Proves that sleeping lanes with due documents wake even if their wake-up was lost. Rounds find them in bounded steps.
"""

import datetime as dt

import pytest

from jobs.duties import finish
from jobs.duties.context import Pass
from jobs.duties.finish import end_runs
from jobs.duties.moves import move
from jobs.duties.stuff import wake_late_lanes
from jobs.lifecycle.document import Stage
from jobs.loops.manager.duty_tables import OWNER_DUTIES
from jobs.models import Bin, BinLimit, BinState, Job, Lane, LaneState, ThrottlePolicy, ThrottleRule
from jobs.queue import rounds as rounds_module
from jobs.queue.offering import stuff as stuffing
from jobs.queue.pace.close import close_turns
from jobs.queue.rounds import Rounds, make_round
from jobs.queue.sql import transaction
from jobs.queue.sql.transaction import WaitingCursor
from tests.integration.test_bounded_reads import explain_on, rows_read
from tests.support.cluster import NOON, register_node, seconds
from tests.support.factories import make_bin, make_documents, make_lane, make_policy, make_running_job
from tests.support.filled_queue import FilledQueue, Shape
from tests.support.stepping import Main

# Time between two steps of a round. An earlier step is skipped.
PAUSE = seconds(1)
# Largest number of rows on a page: a row has a header of 24 bytes, a pointer of 4 bytes, and at least 41 bytes of
# columns.
STATES_A_PAGE = 8192 // 69


@pytest.fixture
def running(connection):
    return make_running_job(register_node(connection, "manager"))


def make_sleeper(running, host, *, served_at=None, documents=1):
    lane = make_lane(running.seed, host, ready_at=None, served_at=served_at)
    make_documents(lane, [f"{host} {number}" for number in range(documents)])
    return lane


def awake():
    return set(LaneState.objects.filter(ready_at__isnull=False).values_list("bin__name", flat=True))


def page_of(connection, lane):
    """Return the number of the page with the lane's state. A new row may fill a page that earlier tests left."""
    statement = "SELECT (ctid::text::point)[0]::int FROM jobs_lanestate WHERE lane_id = %s"
    return connection.execute(statement, [lane.id]).fetchone()[0]


# --- Lanes that a flush fills while they go to sleep ------------------------------------------------


@pytest.fixture
def meanwhile(monkeypatch):
    """Return a list of functions. Stuffing calls them after it has read that a lane is empty, and before it commits."""
    todo = []

    class Interrupted(WaitingCursor):
        def execute(self, query, *args, **options):
            done = super().execute(query, *args, **options)
            if query == stuffing._NEXT_READY and todo:
                todo.pop()()
            return done

    monkeypatch.setattr(transaction, "WaitingCursor", Interrupted)
    return todo


def stuff_all(connection, running, *, now=NOON):
    facts = {"manager": running.manager.id, "group": running.group, "room": 100, "workers": 1}
    return stuffing.stuff(connection, **facts, now=now).documents


def test_a_lane_filled_while_it_goes_to_sleep_wakes_immediately(connection, other_connection, running, meanwhile):
    lane = make_lane(running.seed)

    def fill():
        make_documents(lane, 1)
        # The worker names the filled lane, as after a flush. The lane is still awake, so no lane is woken.
        assert close_turns(other_connection, filled=[lane.pk], now=NOON) == 0

    meanwhile.append(fill)
    assert stuff_all(connection, running) == 0

    assert not meanwhile
    assert stuff_all(connection, running) == 1


def test_a_lane_that_gets_an_earlier_document_meanwhile_wakes_earlier(connection, other_connection, running, meanwhile):
    lane = make_lane(running.seed)
    make_documents(lane, ["late"], seq=None, check_time=NOON + seconds(900))

    def fill():
        make_documents(lane, ["early"], seq=None, check_time=NOON + seconds(60))
        assert close_turns(other_connection, due_later=[(lane.pk, NOON + seconds(60))], now=NOON) == 0

    meanwhile.append(fill)
    stuff_all(connection, running)
    stuff_all(connection, running)

    assert LaneState.objects.get().ready_at == NOON + seconds(60)


def test_a_lane_without_documents_sleeps_without_a_limit(connection, running, meanwhile):
    make_lane(running.seed)

    stuff_all(connection, running)

    assert awake() == set()


# --- Lanes whose wake-up was lost -------------------------------------------------------------------


def test_every_lane_is_examined_within_a_round(connection, running, monkeypatch):
    monkeypatch.setattr(rounds_module, "_LANES", 4)
    other = make_running_job(running.manager)
    hosts = [f"h{number}.example" for number in range(10)]
    for host in hosts[:6]:
        make_sleeper(running, host, served_at=NOON - seconds(3600))
    for host in hosts[6:]:
        make_sleeper(other, host)
    rounds = Rounds()
    groups = [running.group.id, other.group.id]

    woken = [rounds.go_on(connection, groups=groups, now=NOON + n * PAUSE) for n in range(3)]

    assert max(woken) <= 4
    assert awake() == set(hosts)


def test_a_round_makes_a_step_once_a_second(connection, running, monkeypatch):
    monkeypatch.setattr(rounds_module, "_LANES", 2)
    for number in range(6):
        make_sleeper(running, f"h{number}.example")
    rounds, groups = Rounds(), [running.group.id]

    woken = [rounds.go_on(connection, groups=groups, now=NOON + n * seconds(0.5)) for n in range(5)]

    assert woken == [2, 0, 2, 0, 2]


def test_a_round_continues_page_after_page_and_then_starts_again(connection, running, monkeypatch):
    monkeypatch.setattr(rounds_module, "_PAGES", 1)
    first = make_sleeper(running, "first.example", documents=0)
    for number in range(2 * STATES_A_PAGE):
        make_lane(running.seed, f"h{number}.example", ready_at=NOON)
    last = make_sleeper(running, "last.example")
    (pages,) = connection.execute("SELECT pg_relation_size('jobs_lanestate') / 8192").fetchone()
    rounds = Rounds()
    groups = [running.group.id]

    def a_round(start):
        return [rounds.go_on(connection, groups=groups, now=NOON + (start + n) * PAUSE) for n in range(pages)]

    # A lane that wakes gets a new version, perhaps on another page.
    page_of_first, page_of_last = page_of(connection, first), page_of(connection, last)
    woken = a_round(0)
    make_documents(first, 1)
    woken_next = a_round(pages)

    assert pages > 1
    assert woken == [int(page == page_of_last) for page in range(pages)]
    assert woken_next == [int(page == page_of_first) for page in range(pages)]
    assert {first.bin.name, last.bin.name} <= awake()


def test_the_next_round_finds_a_lane_that_went_to_sleep_behind_the_step(connection, running, monkeypatch):
    monkeypatch.setattr(rounds_module, "_LANES", 2)
    lanes = [make_lane(running.seed, f"h{number}.example", ready_at=None) for number in range(5)]
    rounds = Rounds()
    groups = [running.group.id]
    rounds.go_on(connection, groups=groups, now=NOON)
    make_documents(lanes[0], 1)

    for n in range(1, 4):
        rounds.go_on(connection, groups=groups, now=NOON + n * PAUSE)

    assert awake() == {"h0.example"}


def test_a_lane_without_due_documents_is_not_woken(connection, running):
    make_lane(running.seed, "empty.example", ready_at=None, served_at=NOON)
    done = make_lane(running.seed, "done.example", ready_at=None, served_at=NOON)
    make_documents(done, 1, stage=Stage.DONE)

    assert make_round(connection, groups=[running.group.id], now=NOON) == 0
    assert awake() == set()


def test_a_lane_wakes_when_its_waiting_document_becomes_due(connection, running):
    lane = make_lane(running.seed, ready_at=None)
    make_documents(lane, 1, check_time=NOON + seconds(60))

    assert make_round(connection, groups=[running.group.id], now=NOON) == 1


def test_a_lane_that_sleeps_beyond_the_time_of_its_first_document_is_woken(connection, running):
    lane = make_lane(running.seed, ready_at=NOON + seconds(3600))
    make_documents(lane, ["soon"], seq=None, check_time=NOON + seconds(60))

    assert make_round(connection, groups=[running.group.id], now=NOON) == 1


def test_lanes_of_other_managers_are_not_woken(connection, running):
    make_sleeper(running, "theirs.example", served_at=NOON)

    assert make_round(connection, groups=[running.group.id + 1], now=NOON) == 0


def test_a_whole_round_examines_all_lanes_in_one_call(connection, running, monkeypatch):
    monkeypatch.setattr(rounds_module, "_LANES", 2)
    for number in range(7):
        make_sleeper(running, f"h{number}.example")

    assert make_round(connection, groups=[running.group.id], now=NOON) == 7


def test_a_step_is_bounded_however_many_lanes_sleep(connection, running):
    with connection.transaction():
        connection.execute(
            """
            INSERT INTO jobs_bin (namespace, name, "interval", is_known)
            SELECT 'web', 'h' || n || '.example', 0, true FROM generate_series(1, 50000) AS n
            """
        )
        connection.execute("INSERT INTO jobs_binstate (bin_id) SELECT id FROM jobs_bin")
        connection.execute("INSERT INTO jobs_lane (seed_id, bin_id) SELECT %s, id FROM jobs_bin", [running.seed.pk])
        connection.execute(
            """
            INSERT INTO jobs_lanestate (lane_id, seed_id, bin_id, served_at)
            SELECT id, seed_id, bin_id, %s - interval '2 s' - (bin_id / 10) * interval '1 ms' FROM jobs_lane
            """,
            [NOON],
        )
    # There are many documents, so a plan that reads all of them for a few lanes is noticed.
    lanes = list(Lane.objects.order_by("pk")[:500])
    for lane in lanes:
        make_documents(lane, [f"{lane.pk} {number}" for number in range(20)], check_time=NOON + seconds(60))
    connection.execute("ANALYZE jobs_lane, jobs_lanestate, jobs_queueitem")
    pages, most = rounds_module._PAGES, rounds_module._LANES
    facts = {"groups": [running.group.id], "after": "(0,0)", "before": f"({pages},0)", "page": pages, "now": NOON}

    plan = explain_on(connection, rounds_module._LATE, facts | {"lanes": most})

    read = rows_read(plan, of={"jobs_lane", "jobs_lanestate", "jobs_queueitem"})
    assert read["jobs_lanestate"] <= pages * STATES_A_PAGE
    assert "jobs_lane" not in read
    assert read.get("jobs_queueitem", 0) <= most


# --- Lanes with documents to remove -----------------------------------------------------------------


@pytest.mark.parametrize("removing", [{"phase": "shutting_down", "run_no": 2}, {"phase": "deleting"}])
def test_a_lane_with_documents_to_remove_wakes(connection, running, removing):
    lane = make_lane(running.seed, ready_at=None)
    make_documents(lane, 1, stage=Stage.DONE)
    Job.objects.update(**removing)

    assert make_round(connection, groups=[running.group.id], now=NOON) == 1
    assert awake() == {"a.example"}


@pytest.mark.parametrize("kind", ["once", "continuous"])
def test_a_lane_wakes_when_its_documents_beyond_the_hop_limits_are_removed(connection, running, kind):
    lane = make_lane(running.seed, ready_at=NOON + seconds(86400))
    make_documents(lane, 1, stage=Stage.HOPCOUNT_REMOVED, indexed_before=True)
    make_documents(lane, ["later"], stage=Stage.DONE, check_time=NOON + seconds(86400))
    Job.objects.update(hop_limits={"link": 1}, kind=kind)

    woken = [make_round(connection, groups=[running.group.id], now=NOON)]
    Job.objects.update(phase="shutting_down")
    woken.append(make_round(connection, groups=[running.group.id], now=NOON))

    assert woken == ([1, 0] if kind == "continuous" else [0, 1])


@pytest.mark.parametrize("keeping", [{"scan": "changes"}, {"scan": "recheck"}])
def test_a_clean_up_without_removals_wakes_no_lane(connection, running, keeping):
    lane = make_lane(running.seed, ready_at=None)
    make_documents(lane, 1, stage=Stage.DONE)
    Job.objects.update(phase="shutting_down", run_no=2, **keeping)

    assert make_round(connection, groups=[running.group.id], now=NOON) == 0


def test_managers_make_rounds_while_a_job_removes_documents(connection, running):
    duty = next(duty for duty in OWNER_DUTIES if duty.run is wake_late_lanes)

    for phase in ("active", "shutting_down", "deleting"):
        Job.objects.update(phase=phase)
        assert connection.execute(f"SELECT {duty.call}", {"scope": running.manager.scope}).fetchone()[0]


def test_a_clean_up_finds_the_lane_that_its_owner_put_to_sleep_just_before(connection, other_connection, monkeypatch):
    main = Main(connection)
    running = make_running_job(main.node, run_no=2)
    lane = make_lane(running.seed)
    make_documents(lane, 1, stage=Stage.DONE, run_no=1)

    def move_after_a_pass_of_the_owner(at, job_id, name):
        assert stuff_all(other_connection, running) == 0
        return move(at, job_id, name)

    monkeypatch.setattr(finish, "move", move_after_a_pass_of_the_owner)
    main.step(end_runs)

    assert Job.objects.get().phase == "shutting_down"
    assert awake() == {"a.example"}


# --- Lanes that wait for their bins -----------------------------------------------------------------


def make_held(running, host, *, ready_at, last_start_at=NOON, documents=1):
    """Return a lane with due documents that sleeps until its bin opens, and set the time of the bin's last request."""
    lane = make_lane(running.seed, host, ready_at=ready_at)
    BinState.objects.filter(bin=lane.bin).update(last_start_at=last_start_at)
    make_documents(lane, [f"{host} {number}" for number in range(documents)])
    return lane


def ready_at(lane):
    return LaneState.objects.get(lane=lane).ready_at


@pytest.fixture
def job_with_long_gap(connection):
    """Return a job whose policy has a gap of an hour."""
    return make_running_job(register_node(connection, "manager"), policy=make_policy("slow", min_gap=3600.0))


def test_a_lane_continues_soon_after_its_long_gap_was_shortened(connection, job_with_long_gap):
    lane = make_held(job_with_long_gap, "a.example", ready_at=NOON + seconds(3600))
    rounds, groups = Rounds(), [job_with_long_gap.group.id]
    assert rounds.go_on(connection, groups=groups, now=NOON + seconds(60)) == 0

    ThrottlePolicy.objects.update(min_gap=1.0)

    assert rounds.go_on(connection, groups=groups, now=NOON + seconds(62)) == 1
    assert ready_at(lane) == NOON + seconds(62)


def test_the_lane_of_a_denied_host_ignores_a_stop_and_a_back_off(connection, job_with_long_gap):
    never = dt.datetime(9999, 1, 1, tzinfo=dt.UTC)
    lanes = [make_held(job_with_long_gap, f"{name}.denied.example", ready_at=never) for name in ("stopped", "busy")]
    other = make_held(job_with_long_gap, "stopped.example", ready_at=never)
    Bin.objects.filter(name__startswith="stopped.").update(stopped_at=NOON)
    Bin.objects.filter(name__startswith="busy.").update(back_off_until=NOON + seconds(3600))
    rounds, groups = Rounds(), [job_with_long_gap.group.id]
    assert rounds.go_on(connection, groups=groups, now=NOON + seconds(60)) == 0

    ThrottleRule.objects.create(
        policy=job_with_long_gap.seed.policy,
        position=1,
        pattern="*.denied.example",
        days=[1, 2, 3, 4, 5, 6, 7],
        denies=True,
    )
    ThrottlePolicy.objects.update(version=2)

    assert rounds.go_on(connection, groups=groups, now=NOON + seconds(62)) == 2
    assert {ready_at(lane) for lane in lanes} == {NOON + seconds(62)}
    assert ready_at(other) == never


def test_a_fast_round_takes_many_steps_in_a_pass_and_wakes_open_lanes(connection, job_with_long_gap, monkeypatch):
    monkeypatch.setattr(rounds_module, "_LANES", 2)
    monkeypatch.setattr(rounds_module, "_FAST_STEPS", 60.0)
    still = [make_held(job_with_long_gap, f"{n}.still.example", ready_at=NOON + seconds(3600)) for n in range(8)]
    Bin.objects.filter(name__endswith=".still.example").update(interval=3600.0)
    lanes = [make_held(job_with_long_gap, f"{n}.example", ready_at=NOON + seconds(3600)) for n in range(6)]
    ThrottlePolicy.objects.update(min_gap=1.0)
    rounds, groups = Rounds(), [job_with_long_gap.group.id]

    rounds.start_fast_round()
    woken = rounds.go_on(connection, groups=groups, now=NOON + seconds(60))

    assert woken == len(lanes)
    assert {ready_at(lane) for lane in lanes} == {NOON + seconds(60)}
    assert {ready_at(lane) for lane in still} == {NOON + seconds(3600)}


def test_a_pass_of_a_fast_round_ends_after_its_time(connection, job_with_long_gap, monkeypatch):
    monkeypatch.setattr(rounds_module, "_LANES", 2)
    monkeypatch.setattr(rounds_module, "_FAST_STEPS", 0.0)
    for n in range(6):
        make_held(job_with_long_gap, f"{n}.example", ready_at=NOON + seconds(3600))
    ThrottlePolicy.objects.update(min_gap=1.0)
    rounds, groups = Rounds(), [job_with_long_gap.group.id]

    rounds.start_fast_round()
    woken = [rounds.go_on(connection, groups=groups, now=NOON + seconds(60)) for _ in range(3)]

    assert woken == [2, 2, 2]


def test_a_fast_round_that_wakes_no_lane_is_due_again_immediately(connection, job_with_long_gap, monkeypatch):
    monkeypatch.setattr(rounds_module, "_LANES", 2)
    monkeypatch.setattr(rounds_module, "_FAST_STEPS", 0.0)
    for n in range(4):
        make_held(job_with_long_gap, f"{n}.example", ready_at=NOON + seconds(3600))
    at = Pass(
        connection=connection,
        me=job_with_long_gap.manager.id,
        scope=job_with_long_gap.manager.scope,
        now=NOON,
        term=None,
        groups=(job_with_long_gap.group,),
    )

    at.rounds.start_fast_round()
    moved = [wake_late_lanes(at) for _ in range(3)]

    assert moved == [1, 1, 0]


def test_after_a_fast_round_steps_are_made_once_a_second_again(connection, job_with_long_gap, monkeypatch):
    monkeypatch.setattr(rounds_module, "_LANES", 2)
    monkeypatch.setattr(rounds_module, "_FAST_STEPS", 60.0)
    for n in range(6):
        make_held(job_with_long_gap, f"{n}.example", ready_at=NOON + seconds(3600))
    rounds, groups = Rounds(), [job_with_long_gap.group.id]
    rounds.start_fast_round()
    assert rounds.go_on(connection, groups=groups, now=NOON + seconds(60)) == 0

    ThrottlePolicy.objects.update(min_gap=1.0)

    assert [rounds.go_on(connection, groups=groups, now=NOON + seconds(61 + n)) for n in range(3)] == [2, 2, 2]


def test_an_edit_reaches_the_lanes_of_thousands_of_hosts_in_bounded_steps(connection):
    bins = 20_000
    queue = FilledQueue(connection, documents=bins, shape=Shape(bins=bins, throttled=1.0))
    rounds, groups = Rounds(), [queue.group.id]
    connection.execute("UPDATE jobs_binstate SET last_start_at = clock_timestamp() - interval '2 s'")
    ThrottlePolicy.objects.update(min_gap=3600.0)
    assert make_round(connection, groups=groups, now=queue.now()) == 0

    ThrottlePolicy.objects.update(min_gap=1.0)
    rounds.start_fast_round()
    woken = 0
    while rounds.is_fast:
        woken += rounds.go_on(connection, groups=groups, now=queue.now())

    assert woken == bins


def test_a_lane_continues_after_its_delay_or_back_off_was_removed(connection, running):
    delayed, refused = (
        make_held(running, host, ready_at=NOON + seconds(900)) for host in ("delayed.example", "refused.example")
    )
    Bin.objects.filter(name="delayed.example").update(interval=900.0)
    Bin.objects.filter(name="refused.example").update(back_off_until=NOON + seconds(900))
    rounds, groups = Rounds(), [running.group.id]
    assert rounds.go_on(connection, groups=groups, now=NOON + seconds(60)) == 0

    Bin.objects.update(interval=0.0, back_off_until=None)

    assert rounds.go_on(connection, groups=groups, now=NOON + seconds(62)) == 2
    assert {ready_at(lane) for lane in (delayed, refused)} == {NOON + seconds(62)}


def test_a_lane_continues_when_the_job_with_the_strict_policy_has_ended(connection, job_with_long_gap, running):
    lane = make_held(running, "a.example", ready_at=NOON + seconds(3600))
    BinLimit.objects.create(bin=lane.bin, job=job_with_long_gap.job, policy=job_with_long_gap.seed.policy)
    rounds, groups = Rounds(), [running.group.id]
    assert rounds.go_on(connection, groups=groups, now=NOON + seconds(60)) == 0

    Job.objects.filter(pk=job_with_long_gap.job.pk).update(phase="inactive")

    assert rounds.go_on(connection, groups=groups, now=NOON + seconds(62)) == 1
    assert ready_at(lane) == NOON + seconds(62)


def test_a_lane_still_waits_while_its_ip_address_backs_off(connection, running):
    lane = make_held(running, "a.example", ready_at=NOON + seconds(900))
    address = make_bin("10.0.0.1", namespace=Bin.ADDRESS, interval=0.0, back_off_until=NOON + seconds(900))
    Bin.objects.filter(pk=lane.bin_id).update(parent=address)
    rounds, groups = Rounds(), [running.group.id]

    assert rounds.go_on(connection, groups=groups, now=NOON + seconds(60)) == 0
    Bin.objects.filter(pk=address.pk).update(back_off_until=None)

    assert rounds.go_on(connection, groups=groups, now=NOON + seconds(62)) == 1


def test_a_lane_whose_documents_are_not_due_is_not_woken(connection, running):
    lane = make_held(running, "a.example", ready_at=NOON + seconds(900), documents=0)
    make_documents(lane, ["later"], seq=None, check_time=NOON + seconds(900))

    assert Rounds().go_on(connection, groups=[running.group.id], now=NOON + seconds(60)) == 0
    assert ready_at(lane) == NOON + seconds(900)
