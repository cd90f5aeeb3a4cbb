"""
Proves that the control partition divides the totals of policies by need, and that other partitions apply their shares.
"""

import datetime as dt
from fractions import Fraction

import pytest
from django.db import connection

from jobs.definitions.partitions import read_for_partitions
from jobs.duties.partitioned_following import follow_runs
from jobs.duties.partitioned_totals import divide_totals
from jobs.models import Batch, Bin, LaneState, PolicyShare, Seed, ThrottlePolicy, Turn
from jobs.partitions.facts import send_fact, sent_fact
from jobs.partitions.this_partition import ControlledElsewhere
from jobs.queue.pace.read_policies import read_policies
from jobs.throttling.limits import Limits
from jobs.verbs import policies
from tests.support.cluster import NOON
from tests.support.factories import make_bin, make_lane, make_policy
from tests.support.partitions import Follower, Leader, be_partition, receive_fact
from tests.support.stepping import Main

LATER = dt.timedelta(seconds=5)


@pytest.fixture
def policy():
    policy = make_policy("gentle")
    ThrottlePolicy.objects.filter(pk=policy.pk).update(
        total_open_requests=10, total_starts=2, total_period="second", total_bytes_per_second=1000
    )
    return policy


@pytest.fixture
def leader(connection, settings, policy):
    be_partition(settings, "a")
    leader = Leader(connection, Main(connection))
    Seed.objects.update(policy=policy)
    send_fact(connection, "a", "a", "names:all", {})
    return leader


@pytest.fixture
def follower(connection, settings, policy):
    be_partition(settings, "b")
    follower = Follower(connection, Main(connection))
    follower.knows()
    Seed.objects.update(policy=policy)
    return follower


def wants(main, policy):
    return sent_fact(main.connection, "a", "b", f"total:{policy.pk}")


def receive_report(leader, policy, *, need=0, **facts):
    """Receive a report of partition `b`: the share that it applies, and its need."""
    wanted = wants(leader, policy)
    body = {"number": wanted["number"], "share": wanted["share"], "need": need} | facts
    receive_fact(leader.connection, "b", "a", f"total:{policy.pk}", body)


def receive_share(follower, share, *, number):
    body = {"name": "gentle", "number": number, "share": share}
    receive_fact(follower.connection, "a", "b", "total:7", body)
    follower.main.step(divide_totals)
    return sent_fact(follower.connection, "b", "a", "total:7")


def needs(lanes):
    seed = Seed.objects.get()
    for number in range(lanes):
        LaneState.objects.filter(lane=make_lane(seed, f"host{number}.example")).update(ready_at=NOON)


def limits_of(policy):
    with connection.cursor() as cursor:
        return read_policies(cursor, [policy.pk])[policy.pk].in_total(NOON)


def own_share():
    share = PolicyShare.objects.get()
    return Fraction(share.parts, share.of)


# --- The control partition -----------------------------------------------------------------------


def test_the_totals_of_a_policy_are_divided_equally_at_first(leader, policy):
    assert limits_of(policy).requests == 0

    leader.main.step(divide_totals)

    assert wants(leader, policy)["share"] == [1, 2]
    assert limits_of(policy) == Limits(requests=5, gap=1.0, bytes_per_second=500)


def test_a_share_moves_after_the_giving_partition_has_confirmed(leader, policy):
    needs(1)
    leader.main.step(divide_totals)
    receive_report(leader, policy, need=0)

    leader.main.step(divide_totals)
    assert (wants(leader, policy)["share"], own_share()) == ([0, 1], Fraction(1, 2))
    leader.main.step(divide_totals)
    assert own_share() == Fraction(1, 2)
    receive_report(leader, policy, need=0)
    leader.main.step(divide_totals)

    assert own_share() == 1
    assert limits_of(policy) == Limits(requests=10, gap=0.5, bytes_per_second=1000)


def test_the_control_partition_lowers_its_share_before_raising_another(leader, policy):
    leader.main.step(divide_totals)
    receive_report(leader, policy, need=8)

    leader.main.step(divide_totals)
    assert (wants(leader, policy)["share"], own_share()) == ([1, 2], 0)
    leader.main.now += LATER
    leader.main.step(divide_totals)

    assert wants(leader, policy)["share"] == [1, 1]


def test_a_renamed_policy_keeps_its_shares(leader, policy):
    leader.main.step(divide_totals)
    before = wants(leader, policy)
    ThrottlePolicy.objects.update(name="slow")

    leader.main.step(divide_totals)

    assert wants(leader, policy) == {**before, "name": "slow"}


# --- A partition that follows --------------------------------------------------------------------


def test_a_partition_has_no_share_before_it_receives_one(follower, policy):
    assert limits_of(policy).requests == 0

    report = receive_share(follower, [3, 10], number=1)

    assert report == {"number": 1, "share": [3, 10], "need": 0}
    assert limits_of(policy).requests == 3


def test_a_partition_reports_the_number_of_its_waiting_lanes(follower, policy):
    needs(3)

    assert receive_share(follower, [1, 2], number=1)["need"] == 2


def test_a_lower_share_is_confirmed_after_all_turns_of_the_higher_share(follower, policy):
    parent = make_bin(str(policy.pk), namespace=Bin.POLICY)
    lane = make_lane(Seed.objects.get(), "busy.example")
    batch = Batch.objects.create(group_id=lane.seed.group_id or 1, node_scope="cluster", documents=1, created_at=NOON)
    turn = Turn.objects.create(
        batch=batch, lane=lane, bin=lane.bin, documents=1, requests=1, gap=0.0, parents={str(parent.pk): [0, None, 5]}
    )

    before = receive_share(follower, [1, 2], number=1)
    assert receive_share(follower, [1, 5], number=2) == before
    assert limits_of(policy).requests == 2
    follower.main.now += LATER
    assert receive_share(follower, [1, 5], number=2) == before
    Turn.objects.filter(pk=turn.pk).update(closed_at=NOON)

    assert receive_share(follower, [1, 5], number=2) == {"number": 2, "share": [1, 5], "need": 1}


def test_policies_are_changed_in_the_control_partition_only(follower, policy):
    with pytest.raises(ControlledElsewhere):
        policies.change(policy.pk, everywhere=True, open_requests=1)


def test_limits_of_the_cluster_apply_in_all_partitions(follower, policy):
    known = follower.stores_job()
    ThrottlePolicy.objects.update(applies_everywhere=True)
    sent_body = {"definitions": read_for_partitions(known.pk)}
    ThrottlePolicy.objects.update(applies_everywhere=False)
    other = make_policy("no longer")
    ThrottlePolicy.objects.filter(pk=other.pk).update(applies_everywhere=True)
    receive_fact(follower.connection, "a", "b", "job:8", sent_body)

    follower.main.step(follow_runs)

    assert list(ThrottlePolicy.objects.filter(applies_everywhere=True).values_list("name", flat=True)) == ["gentle"]


def test_a_partition_that_is_added_later_begins_without_a_share(leader, policy):
    leader.main.step(divide_totals)
    connection.cursor().execute("DELETE FROM jobs_partitionfact WHERE key LIKE 'total:%'")

    leader.main.step(divide_totals)

    assert wants(leader, policy)["share"] == [0, 1]
