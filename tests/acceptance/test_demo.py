"""Proves that `manage.py demo` and `manage.py run` work as users start them, and leave nothing behind."""

import json
import re
import signal
import urllib.request

import psutil
import pytest

from tests.support.processes import wait_for


@pytest.fixture
def start(machine):
    """Start a command with its own `var` directory, which identifies all of its processes."""

    def start(*arguments):
        return machine.start(*arguments, CRAWLCTL_VAR=str(machine.directory / "var"))

    yield start
    wait_for(lambda: not processes_in(machine.directory), saying="all processes of the command have ended")


def processes_in(directory):
    """Return the processes whose environment names this directory, even if their parent has changed."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("CRAWLCTL_VAR") == str(directory / "var") and process.status() != "zombie":
                found.append(process)
        except psutil.Error:
            continue
    return found


def node(directory, name):
    """Return the process of a node by the node's name."""
    return next((process for process in processes_in(directory) if name in process.cmdline()), None)


def report_of(demo):
    assert demo.wait() == 0, demo.out + demo.err
    assert "Traceback" not in demo.err
    return json.loads(demo.out.splitlines()[-1])


def count_requests(directory):
    log = directory / "var" / "demo" / "site.log"
    return len(log.read_bytes().splitlines()) if log.exists() else 0


def address_in(command):
    """Wait until the command prints the address of its web server, and return it."""
    return wait_for(
        lambda: re.search(r"^web interface: (http://127\.0\.0\.1:\d+)", command.out, re.MULTILINE),
        saying="the command prints the address of its pages",
    )[1]


def test_the_results_of_two_demos_in_a_row_are_exact(machine, start):
    first = report_of(start("demo", "--exit", "--pages", "120"))
    second = report_of(start("demo", "--exit", "--pages", "80", "--hosts", "2"))

    log = str(machine.directory / "var" / "demo" / "site.log")
    assert first == {"site_log": log, "expected": 120, "fetched": 120, "indexed": 120, "missing": 0, "extra": 0}
    assert second == {"site_log": log, "expected": 80, "fetched": 80, "indexed": 80, "missing": 0, "extra": 0}


def test_a_demo_survives_a_killed_worker_and_runs_until_it_is_interrupted(machine, start):
    demo = start("demo", "--pages", "300")
    wait_for(lambda: count_requests(machine.directory) > 60, saying="the demo crawls")

    node(machine.directory, "worker-1").kill()

    wait_for(lambda: "finished after" in demo.out, saying=f"the demo has ended: {demo.err}")
    assert machine.database.documents()[2, "200"] == 300
    assert "worker-1 was ended by SIGKILL" in demo.err
    assert re.search(r"^administrator: admin password: \S+$", demo.out, re.MULTILINE)
    with urllib.request.urlopen(address_in(demo), timeout=10) as page:
        assert page.status == 200
    demo.send(signal.SIGINT)
    assert demo.wait() == 130
    assert "Traceback" not in demo.err


def test_a_killed_demo_leaves_no_process_and_the_next_demo_starts_afresh(machine, start):
    demo = start("demo", "--pages", "300")
    wait_for(lambda: count_requests(machine.directory) > 20, saying="the demo crawls")
    demo.kill()
    wait_for(lambda: not processes_in(machine.directory), saying="the processes of the demo have ended")

    report = report_of(start("demo", "--exit", "--pages", "60"))

    assert (report["missing"], report["extra"]) == (0, 0)


def test_a_demo_that_is_stopped_while_it_creates_partitions_ends_immediately(machine, start):
    demo = start("demo", "--exit", "--partitions", "3")
    partitions = machine.directory / "var" / "demo-3-partitions"
    # The demo creates the database of the control partition first, and then both others at the same time.
    wait_for(
        lambda: all((partitions / name).exists() for name in "bc"), saying="the demo creates partitions", within=300
    )

    demo.send(signal.SIGTERM)

    assert demo.wait() == 128 + signal.SIGTERM
    assert "Traceback" not in demo.err
    assert not (partitions / "a" / "demo" / "site.log").exists()


def test_a_second_demo_on_one_database_is_refused(machine, start):
    demo = start("demo", "--pages", "300")
    address_in(demo)

    second = start("demo", "--exit")

    assert second.wait() == 2
    assert "Another demo is running on this database" in second.err
    demo.send(signal.SIGTERM)
    assert demo.wait() == 0


def test_the_processes_of_command_run_serve_until_it_is_stopped(machine, start):
    run = start("run", "--workers", "1")
    with urllib.request.urlopen(address_in(run), timeout=30) as page:
        assert page.status == 200
    running = "SELECT count(*) FROM nodes_node WHERE status = 'running'"
    wait_for(lambda: machine.database.value(running) == 2, saying="a manager and a worker run")

    run.send(signal.SIGTERM)

    assert run.wait() == 0
    assert "Traceback" not in run.err
    assert machine.database.value("SELECT count(*) FROM nodes_node WHERE status = 'stopped'") == 2
