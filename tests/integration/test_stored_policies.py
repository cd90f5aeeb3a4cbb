"""
Proves that policies are stored unchanged, that invalid policies are refused, and that each change raises the version.
"""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from django.db import IntegrityError, transaction
from django.db import connection as django_connection

from jobs.models import Seed, ThrottlePolicy
from jobs.queue.pace.read_policies import read_policies
from jobs.queue.sql.rows import named_rows
from jobs.throttling.policies import Numbers, PolicyValues, RuleValues
from jobs.throttling.windows import ALWAYS, Window
from jobs.verbs import policies
from tests.support.factories import make_job, make_policy, make_rule
from tests.support.rival import Rival
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


def read(connection, *policies):
    """Return policies as the hot path reads them: rows with names, in binary."""
    with named_rows(connection, binary=True) as cursor:
        return read_policies(cursor, [policy.pk for policy in policies])


def test_a_policy_is_read_as_it_was_stored(connection):
    policy = make_policy(
        open_requests=3,
        min_gap=0.5,
        starts=30,
        period="minute",
        bytes_per_second=1000,
        total_open_requests=20,
        total_starts=10,
        total_period="second",
        total_bytes_per_second=5000,
        per_address=True,
        skips_loopback=True,
        time_zone="Europe/Berlin",
    )

    terms = read(connection, policy)[policy.pk]

    assert terms == PolicyValues(
        id=policy.pk,
        version=1,
        numbers=Numbers(requests=3, min_gap=0.5, rate_gap=2.0, bytes_per_second=1000),
        total=Numbers(requests=20, rate_gap=0.1, bytes_per_second=5000),
        per_address=True,
        skips_loopback=True,
    )


def test_rules_of_a_policy_are_read_in_their_order(connection):
    policy = make_policy(time_zone="Europe/Berlin")
    make_rule(policy, "*.example", position=1, denies=True)
    make_rule(
        policy,
        position=0,
        days=[6, 7],
        from_time=dt.time(22, 15),
        to_time=dt.time(6),
        open_requests=1,
        min_gap=0.0,
        starts=1,
        period="hour",
        bytes_per_second=9,
        total_open_requests=4,
    )

    by_night, denying = read(connection, policy)[policy.pk].rules

    assert by_night == RuleValues(
        window=Window(days=(6, 7), opens=dt.time(22, 15), closes=dt.time(6), zone=ZoneInfo("Europe/Berlin")),
        numbers=Numbers(requests=1, min_gap=0.0, rate_gap=3600.0, bytes_per_second=9),
        total=Numbers(requests=4),
    )
    assert (denying.pattern, denying.denies, denying.numbers) == ("*.example", True, Numbers())
    assert denying.window.is_open(dt.datetime(2030, 1, 1, tzinfo=dt.UTC))
    assert denying.window.days == ALWAYS.days


def test_policies_that_hold_everywhere_are_read_with_every_request(connection):
    asked, _other, everywhere = make_policy(), make_policy(), make_policy(applies_everywhere=True)

    assert read(connection, asked).keys() == {asked.pk, everywhere.pk}
    assert read(connection).keys() == {everywhere.pk}


# --- Versions --------------------------------------------------------------------------------------


def version_of(policy):
    return ThrottlePolicy.objects.values_list("version", flat=True).get(pk=policy.pk)


@each_row(
    "change",
    [
        lambda policy: ThrottlePolicy.objects.filter(pk=policy.pk).update(min_gap=3.0),
        lambda policy: make_rule(policy, denies=True),
        lambda policy: policy.rules.update(pattern="b.example"),
        lambda policy: policy.rules.all().delete(),
    ],
    ids=["of a column", "a new rule", "of a rule", "a rule gone"],
)
def test_every_change_of_a_policy_increases_the_version(change):
    policy = make_policy()
    make_rule(policy, "a.example")
    before = version_of(policy)

    change(policy)

    assert version_of(policy) == before + 1


def test_saving_an_outdated_object_still_increases_the_version():
    policy = make_policy()
    ThrottlePolicy.objects.filter(pk=policy.pk).update(min_gap=3.0)

    policy.save()

    assert version_of(policy) == 3


def test_the_version_stays_if_no_policy_changes():
    policy = make_policy()

    policy.save()

    assert version_of(policy) == 1


# --- Deletion ----------------------------------------------------------------------------------------


def test_no_seed_gets_a_policy_that_is_being_deleted(other_connection):
    policy, seed = make_policy(), make_job().seeds.get()
    with transaction.atomic():
        policies.delete(policy.pk, everywhere=True)
        rival = Rival(other_connection, django_connection.connection)
        rival.start_and_wait(give_elsewhere, seed.pk, policy)

    with pytest.raises(IntegrityError):
        rival.result()
    rival.end()
    assert Seed.objects.get().policy is None


def give_elsewhere(seed_id, policy):
    """Update the seed in another thread, which has its own connection."""
    try:
        Seed.objects.filter(pk=seed_id).update(policy=policy)
    finally:
        django_connection.close()


# --- Invalid policies ------------------------------------------------------------------------------


@each_row(
    "facts",
    [
        {"starts": 5},
        {"period": "minute"},
        {"starts": 0, "period": "minute"},
        {"total_starts": 5},
        {"total_open_requests": 0},
        {"bytes_per_second": 0},
    ],
)
def test_an_incomplete_rate_and_a_limit_of_zero_cannot_be_stored(facts):
    with pytest.raises(IntegrityError), transaction.atomic():
        make_policy(**facts)


@each_row(
    "facts",
    [
        {"days": []},
        {"from_time": dt.time(8)},
        {"to_time": dt.time(8)},
        {"from_time": dt.time(8), "to_time": dt.time(8)},
        {"starts": 5},
        {"open_requests": 0},
    ],
)
def test_a_rule_that_never_holds_cannot_be_stored(facts):
    policy = make_policy()

    with pytest.raises(IntegrityError), transaction.atomic():
        make_rule(policy, **facts)
