"""
Proves that a crawl over several databases has the result of one database, even if processes and servers are killed.
"""

import json

import psycopg
import pytest

from jobs.partitions.move_notes import read_move, read_report, request_move
from jobs.partitions.moving import MovePhase
from jobs.partitions.placement import Placement
from tests.support.installations import copy_migrated
from tests.support.partitioned_demo import (
    count_requests,
    kill_node,
    kill_server,
    partitions_of,
    processes_in,
)
from tests.support.processes import wait_for

# Longest time of a demo (seconds): two clusters start and crawl on a machine that does other work.
ENDS_WITHIN = 240


@pytest.fixture
def start_demo(machine):
    """Start a demo with its own directory, which identifies all of its processes, also those of its partitions."""

    def start(*arguments):
        for name in "ab":
            copy_migrated(machine.directory / "var" / "demo-2-partitions" / name)
        command = ("demo", "--exit", "--partitions", "2", "--managers", "1", "--workers", "1", *arguments)
        return machine.start(*command, CRAWLCTL_VAR=str(machine.directory / "var"))

    yield start
    wait_for(lambda: not list(processes_in(machine.directory)), saying="all processes of the demo have ended")


def report_of(demo):
    demo.wait(within=ENDS_WITHIN)
    assert "Traceback" not in demo.err, demo.err
    return json.loads(demo.out.splitlines()[-1])


def test_kills_in_both_partitions_lose_no_document(start_demo, machine):
    pages = 1000
    demo = start_demo("--pages", str(pages), "--hosts", "30")
    kills = (
        lambda: kill_node(machine.directory, "b", "worker-1"),
        lambda: kill_server(machine.directory, "b"),
        lambda: kill_node(machine.directory, "a", "manager-1"),
        lambda: kill_node(machine.directory, "b", "manager-1"),
        lambda: kill_server(machine.directory, "a"),
    )
    for number, kill in enumerate(kills, start=1):
        enough = number * pages // (len(kills) + 2)
        wait_for(
            lambda enough=enough: count_requests(machine.directory) > enough,
            within=ENDS_WITHIN,
            saying="the demo crawls",
        )
        kill()
    report = report_of(demo)

    # A document in flight may have been fetched twice.
    assert report["fetched"] == report["indexed"] == report["expected"] == pages
    assert report["missing"] == 0


def test_two_partitions_fetch_a_site_exactly_like_one_partition_while_slots_move(start_demo, machine):
    pages = 600
    demo = start_demo("--pages", str(pages), "--hosts", "20")
    wait_for(lambda: count_requests(machine.directory) > pages / 6, within=ENDS_WITHIN, saying="the demo crawls")
    addresses = partitions_of(machine.directory)

    # The site has no separate process, so that the crawl does not end before the move begins.
    with psycopg.connect(addresses["a"], autocommit=True) as control:
        request_move(control, Placement("a", tuple(addresses)), slots=range(256), targets=["b"])
        wait_for(lambda: read_move(control).phase == MovePhase.DONE, within=ENDS_WITHIN, saying="the slots have moved")
        moved = read_report(control, tuple(addresses))
    assert moved.sent["b"] > 0
    assert [job.is_active for job in moved.held.values()] == [True]

    report = report_of(demo)
    assert report["fetched"] == report["indexed"] == report["expected"] == pages
    assert (report["missing"], report["extra"]) == (0, 0)
