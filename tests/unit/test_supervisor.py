"""Proves with small processes that the supervisor restarts services, and stops them in order and in time."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from crawlctl.processes.supervisor import Service, ServiceEnded, Supervisor

PATIENCE = 20  # seconds
ROOT = Path(__file__).resolve().parents[2]

# This script writes its events to a file, and ends at SIGTERM or at the end of its standard input.
OBEDIENT = """
import signal, sys, time
def say(word):
    with open(sys.argv[1], "a") as file:
        file.write(f"{sys.argv[2]} {word}\\n")
def stop(*_):
    say("stopped")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
say("started")
sys.stdin.read()
say("orphaned")
"""

STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def messages():
    return []


@pytest.fixture
def supervisor(messages):
    made = Supervisor(write_line=messages.append)
    yield made
    made.kill()
    made.stop(within=PATIENCE)


@pytest.fixture
def diary(tmp_path):
    path = tmp_path / "diary"
    path.touch()
    return path


def obedient(name, diary, **options):
    command = (sys.executable, "-c", OBEDIENT, str(diary), name)
    return Service(name=name, command=command, directory=ROOT, **options)


def pids_of(diary):
    """Return the pids of live processes that write to this diary."""
    return [p.pid for p in psutil.process_iter(["cmdline"]) if str(diary) in (p.info["cmdline"] or ())]


def wait_for(condition, *, meanwhile=lambda: None):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        meanwhile()
        time.sleep(0.02)


def has_lines(diary, count):
    return lambda: len(diary.read_text().splitlines()) == count


def test_a_killed_service_is_started_again(supervisor, messages, diary):
    supervisor.start(obedient("worker", diary))
    wait_for(has_lines(diary, 1))
    psutil.Process(*pids_of(diary)).kill()

    wait_for(has_lines(diary, 2), meanwhile=supervisor.tend)

    assert diary.read_text() == "worker started\nworker started\n"
    assert messages == ["worker was ended by SIGKILL; it is started again in 1 s."]


def test_a_process_that_dies_soon_waits_longer_each_time(supervisor, messages):
    supervisor.start(Service(name="hasty", command=("false",), directory=ROOT))

    wait_for(lambda: len(messages) == 2, meanwhile=supervisor.tend)

    assert messages == [
        "hasty ended with exit code 1; it is started again in 1 s.",
        "hasty ended with exit code 1; it is started again in 2 s.",
    ]


def test_the_end_of_a_service_that_does_not_restart_is_an_error(supervisor, tmp_path):
    log = tmp_path / "log"
    service = Service(
        name="site", command=("sh", "-c", "echo why >&2; exit 3"), directory=ROOT, log=log, restarts=False
    )
    supervisor.start(service)

    with pytest.raises(ServiceEnded, match="site ended with exit code 3"):
        wait_for(lambda: False, meanwhile=supervisor.tend)

    assert log.read_text() == "why\n"


def test_processes_stop_in_reverse_order_of_their_start(supervisor, diary):
    supervisor.start(obedient("site", diary))
    wait_for(has_lines(diary, 1))
    supervisor.start(obedient("worker", diary))
    wait_for(has_lines(diary, 2))

    supervisor.stop(within=PATIENCE)

    assert diary.read_text().splitlines()[2:] == ["worker stopped", "site stopped"]
    assert pids_of(diary) == []


def test_a_process_that_does_not_stop_in_time_is_killed(supervisor):
    supervisor.start(Service(name="x", command=(sys.executable, "-c", STUBBORN), directory=ROOT, announces=True))
    assert supervisor.announcement("x", within=PATIENCE) == "ready"
    began_at = time.monotonic()

    supervisor.stop(within=0.2)

    assert time.monotonic() - began_at < PATIENCE


def test_a_service_that_ends_before_its_announcement_is_an_error(supervisor):
    supervisor.start(Service(name="site", command=("false",), directory=ROOT, announces=True))

    with pytest.raises(ServiceEnded):
        supervisor.announcement("site", within=PATIENCE)


def test_services_end_with_a_supervisor_that_is_killed(diary):
    program = """
import sys, time
from pathlib import Path
from crawlctl.processes.supervisor import Service, Supervisor
supervisor = Supervisor(write_line=print)
for name in ("site", "worker"):
    supervisor.start(Service(name=name, command=(sys.executable, "-c", sys.argv[1], sys.argv[2], name), directory=Path()))
time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", program, OBEDIENT, str(diary)], cwd=ROOT)
    wait_for(has_lines(diary, 2))

    parent.send_signal(signal.SIGKILL)
    parent.wait(PATIENCE)

    wait_for(has_lines(diary, 4))
    assert sorted(diary.read_text().splitlines()[2:]) == ["site orphaned", "worker orphaned"]
    wait_for(lambda: pids_of(diary) == [])
