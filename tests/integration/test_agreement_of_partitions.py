"""
Proves that a daemon refuses to start if settings of partitions disagree with the databases, and names the setting.
"""

import pytest
from django.core.management import CommandError, call_command
from django.db import connection as django_connection

from jobs.partitions.agreement import check_other_partitions, check_partitions, compare
from jobs.partitions.facts import own_fact
from jobs.partitions.placement import SLOTS, BadPartitions
from jobs.partitions.slots import SlotMap, read_map
from jobs.partitions.this_partition import placement
from jobs.settings.partitions import PARTITION, PARTITIONS
from tests.support.partitions import be_partition
from tests.support.tables import each_row

OWN = {"here": "a", "names": ["a", "b"], "slots": SLOTS, "identity": "one"}
NOTE_OF_B = {"here": "b", "names": ["a", "b"], "slots": SLOTS, "identity": "two"}


def own_address():
    facts = django_connection.settings_dict
    return (
        f"postgresql://{facts['USER']}@/{facts['NAME']}?host={facts['HOST']}&port={facts['PORT']}"
        f"&password={facts['PASSWORD']}"
    )


def test_a_database_cannot_become_another_partition(connection, settings):
    without = settings.CRAWLCTL_ENVIRONMENT
    be_partition(settings, "a")
    check_partitions(connection)
    check_partitions(connection)

    be_partition(settings, "b")
    with pytest.raises(BadPartitions, match="CRAWLCTL_PARTITION is b, but this database is partition a"):
        check_partitions(connection)
    settings.CRAWLCTL_ENVIRONMENT = without
    with pytest.raises(BadPartitions, match="CRAWLCTL_PARTITION is not set"):
        check_partitions(connection)


def test_a_database_keeps_the_names_of_all_partitions(connection, settings):
    be_partition(settings, "a")
    check_partitions(connection)
    more = ("a=postgresql://one/crawl", "c=postgresql://two/crawl")
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, PARTITION.path: "a", PARTITIONS.path: more}

    with pytest.raises(BadPartitions, match="CRAWLCTL_PARTITIONS names a, c, but this database is partition a of a, b"):
        check_partitions(connection)


def with_names(settings, here, names):
    addresses = tuple(f"{name}=postgresql://{name}/crawl" for name in names)
    values = {PARTITION.path: here, PARTITIONS.path: addresses}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}


def test_a_partition_is_added_at_the_end_and_has_no_slots(connection, settings):
    be_partition(settings, "a")
    check_partitions(connection)
    with_names(settings, "a", "abc")
    with pytest.raises(BadPartitions, match="crawlctl partition add NAME"):
        check_partitions(connection)

    call_command("partition", "add", "c")

    check_partitions(connection)
    assert read_map(connection, "abc") == SlotMap.even("ab")


@each_row("names", ["acb", "abcd", "ab"])
def test_a_partition_name_is_added_only_at_the_end_of_the_setting(connection, settings, names):
    be_partition(settings, "a")
    check_partitions(connection)
    with_names(settings, "a", names)

    with pytest.raises(CommandError, match="Set it to a, b, c"):
        call_command("partition", "add", "c")


def test_a_database_has_one_identity(connection, settings):
    be_partition(settings, "a")
    check_partitions(connection)
    first = own_fact(connection, "names:all")
    check_partitions(connection)

    assert own_fact(connection, "names:all")["identity"] == first["identity"]


@each_row(
    "name, note, problem",
    [
        ("a", NOTE_OF_B, "DATABASE_URL and CRAWLCTL_PARTITIONS disagree: the address of a"),
        ("b", OWN, "the address of b leads to the database of this partition, a"),
        ("b", NOTE_OF_B | {"here": "c"}, "the address of b leads to the database of partition c"),
        ("b", NOTE_OF_B | {"names": ["b", "a"]}, "CRAWLCTL_PARTITIONS disagrees with partition b: it is a, b here, and b, a"),
        ("b", NOTE_OF_B | {"slots": 512}, "number of slots disagrees with partition b: it is 1024 here, and 512 there"),
        ("b", NOTE_OF_B | {"identity": "three"}, "the address of b leads to another database than before"),
    ],
    ids=["own address", "one database twice", "exchanged", "order", "slots", "another cluster"],
)  # fmt: skip
def test_settings_that_disagree_with_another_database_are_refused_by_name(settings, name, note, problem):
    be_partition(settings, "a")

    with pytest.raises(BadPartitions, match=problem):
        compare(placement(), OWN, name, note, known="two")


def test_settings_that_agree_are_accepted(settings):
    be_partition(settings, "a")

    compare(placement(), OWN, "a", OWN)
    compare(placement(), OWN, "b", NOTE_OF_B, known="two")


def test_an_address_that_leads_to_the_database_of_this_partition_is_refused(connection, settings):
    both = (f"a={own_address()}", f"b={own_address()}")
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, PARTITION.path: "a", PARTITIONS.path: both}
    check_partitions(connection)

    with pytest.raises(BadPartitions, match="the address of b leads to the database of this partition"):
        check_other_partitions(connection)


def test_a_partition_that_does_not_answer_does_not_prevent_a_start(connection, settings):
    both = (f"a={own_address()}", "b=postgresql://127.0.0.1:1/crawl")
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, PARTITION.path: "a", PARTITIONS.path: both}
    check_partitions(connection)

    check_other_partitions(connection)

    assert list(own_fact(connection, "known:all")) == ["a"]


def test_a_new_database_of_a_partition_is_accepted_by_command(connection, settings, capsys):
    both = (f"a={own_address()}", "b=postgresql://127.0.0.1:1/crawl")
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, PARTITION.path: "a", PARTITIONS.path: both}
    check_partitions(connection)
    check_other_partitions(connection)

    call_command("partition", "accept", "a")
    call_command("partition", "accept", "b")
    with pytest.raises(CommandError, match="CRAWLCTL_PARTITIONS names: a, b"):
        call_command("partition", "accept", "c")

    assert own_fact(connection, "known:all") == {}
    assert "no database of partition b is known" in capsys.readouterr().out
