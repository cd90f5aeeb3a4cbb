"""Proves that each host belongs to one partition, and that settings of partitions must not contradict each other."""

import pytest

from jobs.partitions.placement import SLOTS, BadPartitions, Placement, read_placement, slot_of
from tests.support.tables import each_row

ALL = ("a=postgresql://one/crawl", "b=postgresql://two/crawl", "c=postgresql://three/crawl")


@each_row("name", ["example.org", "Example.ORG", "example.org:80", "example.org:8443"])
def test_all_ports_and_spellings_of_a_host_have_one_slot(name):
    assert slot_of(name) == slot_of("example.org")


def test_a_host_name_whose_end_is_no_port_is_hashed_as_a_whole():
    assert slot_of("/srv/files:old") != slot_of("/srv/files")


def test_each_host_has_exactly_one_partition():
    names = ("a", "b", "c")
    for number in range(1000):
        host = f"host-{number}.example"
        owners = [here for here in names if Placement(here, names).foreign(host) is None]
        assert len(owners) == 1
        assert Placement("a", names).partition_of(host) == owners[0]


def test_partitions_get_about_equal_shares_of_the_hosts():
    names = ("a", "b", "c", "d")
    placement = Placement("a", names)
    shares = [placement.partition_of(f"host-{number}.example") for number in range(8 * SLOTS)]

    for name in names:
        assert shares.count(name) == pytest.approx(2 * SLOTS, rel=0.1)


def test_the_first_partition_is_the_control_partition():
    assert read_placement("a", ALL).is_control
    assert not read_placement("b", ALL).is_control
    assert read_placement("b", ALL).others == ("a", "c")


@each_row("here, stated", [("", ()), ("a", ALL[:1])])
def test_a_single_database_has_no_placement(here, stated):
    assert read_placement(here, stated) is None


@each_row(
    "here, stated, problem",
    [
        ("", ALL, "CRAWLCTL_PARTITION is not"),
        ("d", ALL, "CRAWLCTL_PARTITION is 'd', which CRAWLCTL_PARTITIONS does not name. It names: a, b, c."),
        ("d", (), "It names: none."),
        ("a", (*ALL, "a=postgresql://four/crawl"), "names 'a' twice"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(here, stated, problem):
    with pytest.raises(BadPartitions, match=problem.replace(".", r"\.")):
        read_placement(here, stated)
