"""
The sweep finds each sleeping lane with due documents after any loss of its wake-up, and each pass of it is bounded.
"""

import math

import pytest

from jobs.lifecycle.document import Stage
from jobs.models import Bin, BinLimit, BinState, Job, Lane, LaneState, ThrottlePolicy
from jobs.queue import wake
from jobs.queue.wake import Sweep
from tests.integration.test_what_is_read import explain_on, rows_read
from tests.support.cluster import NOON, register_node, seconds
from tests.support.factories import make_bin, make_documents, make_lane, make_policy, make_running_job
from tests.support.filled_queue import FilledQueue, Shape

# Pause between two looks. The sweep skips a look that comes sooner and would find nothing new.
PAUSE = seconds(1)
# Rows on a page at most: a row has a header of 24 bytes, a pointer of 4, and at least 41 bytes of columns.
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


def test_a_recently_served_lane_is_found_by_the_next_scan(connection, running):
    sweep = Sweep()
    groups = [running.group.id]
    for number in range(40):
        make_lane(running.seed, f"h{number}.example", ready_at=None)
    sweep.look(connection, groups=groups, now=NOON)
    sleeper = make_sleeper(running, "late.example", served_at=NOON)

    woken = sweep.look(connection, groups=groups, now=NOON + PAUSE)

    assert woken == 1
    assert awake() == {sleeper.bin.name}


def test_lanes_that_fell_asleep_lately_are_all_checked_once(connection, running, monkeypatch):
    monkeypatch.setattr(wake, "_SWEEP", wake._SWEEP.replace(f"{wake._LATELY_A_PASS}", "3"))
    monkeypatch.setattr(wake, "_IN_TURN_A_PASS", 0)
    hosts = [f"h{number}.example" for number in range(8)]
    for number, host in enumerate(hosts):
        make_sleeper(running, host, served_at=NOON + number * seconds(0.1))
    sweep = Sweep()

    woken = [sweep.look(connection, groups=[running.group.id], now=NOON + seconds(3)) for _ in range(4)]

    assert woken == [3, 3, 2, 0]
    assert awake() == set(hosts)


def test_every_lane_is_checked_within_a_round(connection, running, monkeypatch):
    monkeypatch.setattr(wake, "_IN_TURN_A_PASS", 4)
    other = make_running_job(running.manager)
    hosts = [f"h{number}.example" for number in range(10)]
    for host in hosts[:6]:
        make_sleeper(running, host, served_at=NOON - seconds(3600))
    for host in hosts[6:]:
        make_sleeper(other, host)
    sweep = Sweep()
    groups = [running.group.id, other.group.id]

    woken = [sweep.look(connection, groups=groups, now=NOON + n * PAUSE) for n in range(math.ceil(len(hosts) / 4))]

    assert max(woken) <= 4
    assert awake() == set(hosts)


def test_a_round_reads_page_after_page_and_then_starts_again(connection, running, monkeypatch):
    monkeypatch.setattr(wake, "_PAGES_A_PASS", 1)
    first = make_sleeper(running, "first.example", documents=0)
    for number in range(2 * STATES_A_PAGE):
        make_lane(running.seed, f"h{number}.example", ready_at=NOON)
    last = make_sleeper(running, "last.example")
    (pages,) = connection.execute("SELECT pg_relation_size('jobs_lanestate') / 8192").fetchone()
    sweep = Sweep()
    groups = [running.group.id]

    def a_round(start):
        return [sweep.look(connection, groups=groups, now=NOON + (start + n) * PAUSE) for n in range(pages)]

    # A lane that wakes gets a new version, perhaps on another page.
    page_of_first, page_of_last = page_of(connection, first), page_of(connection, last)
    woken = a_round(0)
    make_documents(first, 1)
    woken_next = a_round(pages)

    assert pages > 1
    assert woken == [int(page == page_of_last) for page in range(pages)]
    assert woken_next == [int(page == page_of_first) for page in range(pages)]
    assert {first.bin.name, last.bin.name} <= awake()


def test_the_next_round_finds_lanes_that_fell_asleep_behind_the_scan(connection, running, monkeypatch):
    monkeypatch.setattr(wake, "_IN_TURN_A_PASS", 2)
    lanes = [make_lane(running.seed, f"h{number}.example", ready_at=None) for number in range(5)]
    sweep = Sweep()
    groups = [running.group.id]
    sweep.look(connection, groups=groups, now=NOON)
    make_documents(lanes[0], 1)

    for n in range(1, 4):
        sweep.look(connection, groups=groups, now=NOON + n * PAUSE)

    assert awake() == {"h0.example"}


def test_a_lane_in_which_nothing_is_left_sleeps_on(connection, running):
    make_lane(running.seed, "empty.example", ready_at=None, served_at=NOON)
    done = make_lane(running.seed, "done.example", ready_at=None, served_at=NOON)
    make_documents(done, 1, stage=Stage.DONE)

    assert Sweep().look_at_all(connection, groups=[running.group.id], now=NOON + PAUSE) == 0
    assert awake() == set()


def test_a_document_that_waits_for_its_time_wakes_its_lane(connection, running):
    lane = make_lane(running.seed, ready_at=None)
    make_documents(lane, 1, check_time=NOON + seconds(60))

    assert Sweep().look_at_all(connection, groups=[running.group.id], now=NOON) == 1


def test_lanes_of_others_are_left_to_them(connection, running):
    make_sleeper(running, "theirs.example", served_at=NOON)

    assert Sweep().look(connection, groups=[running.group.id + 1], now=NOON + PAUSE) == 0


def test_all_lanes_are_scanned_on_request(connection, running, monkeypatch):
    monkeypatch.setattr(wake, "_LATELY_A_PASS", 2)
    monkeypatch.setattr(wake, "_IN_TURN_A_PASS", 1)
    for number in range(7):
        make_sleeper(running, f"h{number}.example")

    assert Sweep().look_at_all(connection, groups=[running.group.id], now=NOON) == 7


def test_a_scan_is_bounded_for_any_number_of_sleeping_lanes(connection, running):
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
            # Ten lanes share each moment, as one pass serves several.
            """
            INSERT INTO jobs_lanestate (lane_id, seed_id, bin_id, served_at)
            SELECT id, seed_id, bin_id, %s - interval '2 s' - (bin_id / 10) * interval '1 ms' FROM jobs_lane
            """,
            [NOON],
        )
    # Enough documents that a plan must not read all of them for a few lanes.
    lanes = list(Lane.objects.order_by("pk")[:500])
    for lane in lanes:
        make_documents(lane, [f"{lane.pk} {number}" for number in range(20)], check_time=NOON + seconds(60))
    connection.execute("ANALYZE jobs_lane, jobs_lanestate, jobs_queueitem")
    pages = wake._PAGES_A_PASS
    facts = {"groups": [running.group.id], "after": wake._START, "before": f"({pages},0)", "page": pages, "now": NOON}
    facts |= {"in_turn": wake._IN_TURN_A_PASS}

    plan = explain_on(connection, wake._SWEEP, facts | {"since": NOON - seconds(10), "until": NOON - seconds(1)})

    read = rows_read(plan, of={"jobs_lane", "jobs_lanestate", "jobs_queueitem"})
    assert read["jobs_lanestate"] <= 2 * (wake._LATELY_A_PASS + wake._IN_TURN_A_PASS) + pages * STATES_A_PAGE
    assert "jobs_lane" not in read
    assert read.get("jobs_queueitem", 0) <= wake._LATELY_A_PASS + wake._IN_TURN_A_PASS


# --- Lanes that wait for their bins -----------------------------------------------------------------


def make_held(running, host, *, ready_at, last_start_at=NOON, documents=1):
    """Return a lane with due documents that sleeps until its bin opens. The bin had its last request a while ago."""
    lane = make_lane(running.seed, host, ready_at=ready_at)
    BinState.objects.filter(bin=lane.bin).update(last_start_at=last_start_at)
    make_documents(lane, [f"{host} {number}" for number in range(documents)])
    return lane


def ready_at(lane):
    return LaneState.objects.get(lane=lane).ready_at


@pytest.fixture
def slow(connection):
    """Return a job whose policy has a gap of an hour."""
    return make_running_job(register_node(connection, "manager"), policy=make_policy("slow", min_gap=3600.0))


def test_a_lane_continues_soon_after_its_long_gap_was_made_short(connection, slow):
    lane = make_held(slow, "a.example", ready_at=NOON + seconds(3600))
    sweep, groups = Sweep(), [slow.group.id]
    assert sweep.look(connection, groups=groups, now=NOON + seconds(60)) == 0

    ThrottlePolicy.objects.update(min_gap=1.0)

    assert sweep.look(connection, groups=groups, now=NOON + seconds(62)) == 1
    assert ready_at(lane) == NOON + seconds(62)


def test_a_fast_round_wakes_many_lanes_per_step_and_continues_behind_them(connection, slow, monkeypatch):
    monkeypatch.setattr(wake, "_IN_TURN_A_PASS", 2)
    monkeypatch.setattr(wake, "_LANES_WHEN_FAST", 4)
    still = [make_held(slow, f"{n}.still.example", ready_at=NOON + seconds(3600)) for n in range(8)]
    Bin.objects.filter(name__endswith=".still.example").update(interval=3600.0)
    lanes = [make_held(slow, f"{n}.example", ready_at=NOON + seconds(3600)) for n in range(6)]
    ThrottlePolicy.objects.update(min_gap=1.0)
    sweep, groups = Sweep(), [slow.group.id]

    sweep.speed_up()
    woken = [sweep.look(connection, groups=groups, now=NOON + seconds(60)) for _ in range(2)]

    assert woken == [4, 2]
    assert {ready_at(lane) for lane in lanes} == {NOON + seconds(60)}
    assert {ready_at(lane) for lane in still} == {NOON + seconds(3600)}


def test_a_fast_round_ends_with_the_table_and_the_next_has_its_usual_pace(connection, slow, monkeypatch):
    monkeypatch.setattr(wake, "_IN_TURN_A_PASS", 2)
    lanes = [make_held(slow, f"{n}.example", ready_at=NOON + seconds(3600)) for n in range(6)]
    sweep, groups = Sweep(), [slow.group.id]
    sweep.speed_up()
    assert sweep.look(connection, groups=groups, now=NOON + seconds(60)) == 0

    ThrottlePolicy.objects.update(min_gap=1.0)

    assert [sweep.look(connection, groups=groups, now=NOON + seconds(61 + n)) for n in range(len(lanes) // 2)] == [
        2
    ] * 3


def test_an_edit_reaches_the_lanes_of_very_many_hosts_in_few_bounded_steps(connection):
    bins = 20_000
    queue = FilledQueue(connection, documents=bins, shape=Shape(bins=bins, throttled=1.0))
    sweep, groups = Sweep(), [queue.group.id]
    connection.execute("UPDATE jobs_binstate SET last_start_at = clock_timestamp() - interval '2 s'")
    ThrottlePolicy.objects.update(min_gap=3600.0)
    sweep.speed_up()
    assert sweep.look(connection, groups=groups, now=queue.now()) == 0

    ThrottlePolicy.objects.update(min_gap=1.0)
    sweep.speed_up()
    woken = [sweep.look(connection, groups=groups, now=queue.now()) for _ in range(5)]

    assert sum(woken) == bins
    assert max(woken) <= wake._LANES_WHEN_FAST


def test_a_lane_continues_after_its_delay_or_back_off_was_taken_back(connection, running):
    delayed, refused = (
        make_held(running, host, ready_at=NOON + seconds(900)) for host in ("delayed.example", "refused.example")
    )
    Bin.objects.filter(name="delayed.example").update(interval=900.0)
    Bin.objects.filter(name="refused.example").update(back_off_until=NOON + seconds(900))
    sweep, groups = Sweep(), [running.group.id]
    assert sweep.look(connection, groups=groups, now=NOON + seconds(60)) == 0

    Bin.objects.update(interval=0.0, back_off_until=None)

    assert sweep.look(connection, groups=groups, now=NOON + seconds(62)) == 2
    assert {ready_at(lane) for lane in (delayed, refused)} == {NOON + seconds(62)}


def test_a_lane_continues_when_the_job_with_the_strict_policy_has_ended(connection, slow, running):
    lane = make_held(running, "a.example", ready_at=NOON + seconds(3600))
    BinLimit.objects.create(bin=lane.bin, job=slow.job, policy=slow.seed.policy)
    sweep, groups = Sweep(), [running.group.id]
    assert sweep.look(connection, groups=groups, now=NOON + seconds(60)) == 0

    Job.objects.filter(pk=slow.job.pk).update(phase="inactive")

    assert sweep.look(connection, groups=groups, now=NOON + seconds(62)) == 1
    assert ready_at(lane) == NOON + seconds(62)


def test_a_lane_still_waits_while_its_address_does(connection, running):
    lane = make_held(running, "a.example", ready_at=NOON + seconds(900))
    address = make_bin("10.0.0.1", namespace=Bin.ADDRESS, interval=0.0, back_off_until=NOON + seconds(900))
    Bin.objects.filter(pk=lane.bin_id).update(parent=address)
    sweep, groups = Sweep(), [running.group.id]

    assert sweep.look(connection, groups=groups, now=NOON + seconds(60)) == 0
    Bin.objects.filter(pk=address.pk).update(back_off_until=None)

    assert sweep.look(connection, groups=groups, now=NOON + seconds(62)) == 1


def test_a_lane_that_waits_for_its_documents_sleeps_on(connection, running):
    lane = make_held(running, "a.example", ready_at=NOON + seconds(900), documents=0)
    make_documents(lane, ["later"], seq=None, check_time=NOON + seconds(900))

    assert Sweep().look(connection, groups=[running.group.id], now=NOON + seconds(60)) == 0
    assert ready_at(lane) == NOON + seconds(900)
