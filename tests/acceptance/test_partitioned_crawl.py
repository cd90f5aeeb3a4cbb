"""Proves that a crawl over several databases is the crawl of one, also if processes and servers are killed."""

import json
from contextlib import suppress

import psutil
import psycopg
import pytest

from jobs.partitions.move_notes import read_move, read_report, request_move
from jobs.partitions.moving import MovePhase
from jobs.partitions.placement import Placement
from tests.support.installations import copy_migrated
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
    wait_for(lambda: not list(processes_in(machine.directory)), saying="everything has ended")


def processes_in(directory):
    """Yield the processes whose environment names a directory below this one, with its last part: the partition."""
    for process in psutil.process_iter():
        try:
            var = process.environ().get("CRAWLCTL_VAR", "")
            if var.startswith(str(directory)) and process.status() != "zombie":
                yield var.rpartition("/")[2], process
        except psutil.Error:
            continue


def kill_node(directory, partition, name):
    for here, process in processes_in(directory):
        if here == partition and name in process.cmdline():
            process.kill()


def kill_server(directory, partition):
    """Kill all processes of the database server of a partition."""
    lines = (partition_in(directory, partition) / "postgres" / "data" / "postmaster.pid").read_text().splitlines()
    server = psutil.Process(int(lines[0]))
    for process in [server, *server.children()]:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def partition_in(directory, partition):
    return next((directory / "var").glob("demo-*-partitions")) / partition


def count_requests(directory):
    logs = list((directory / "var").glob("demo-*-partitions/a/demo/site.log"))
    return len(logs[0].read_bytes().splitlines()) if logs else 0


def partitions_of(directory):
    """Return the database address of each partition of a running demo."""
    managers = (
        process for here, process in processes_in(directory) if here == "a" and "manager-1" in process.cmdline()
    )
    return dict(one.split("=", 1) for one in next(managers).environ()["CRAWLCTL_PARTITIONS"].split())


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
            lambda enough=enough: count_requests(machine.directory) > enough, within=ENDS_WITHIN, saying="it crawls"
        )
        kill()
    report = report_of(demo)

    # A document in flight may have been fetched twice.
    assert report["fetched"] == report["indexed"] == report["expected"] == pages
    assert report["missing"] == 0


def test_two_partitions_fetch_a_site_exactly_as_one_does_while_slots_move(start_demo, machine):
    pages = 600
    demo = start_demo("--pages", str(pages), "--hosts", "20")
    wait_for(lambda: count_requests(machine.directory) > pages / 6, within=ENDS_WITHIN, saying="it crawls")
    addresses = partitions_of(machine.directory)

    # Without a process of its own, so that the crawl is not over before the move begins.
    with psycopg.connect(addresses["a"], autocommit=True) as control:
        request_move(control, Placement("a", tuple(addresses)), slots=range(256), targets=["b"])
        wait_for(lambda: read_move(control).phase == MovePhase.DONE, within=ENDS_WITHIN, saying="the slots have moved")
        moved = read_report(control, tuple(addresses))
    assert moved.sent["b"] > 0
    assert [job.is_active for job in moved.held.values()] == [True]

    report = report_of(demo)
    assert report["fetched"] == report["indexed"] == report["expected"] == pages
    assert (report["missing"], report["extra"]) == (0, 0)
