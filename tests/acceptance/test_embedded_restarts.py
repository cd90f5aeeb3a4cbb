"""
Proves that each process reconnects by itself after the embedded server could not start or write, as on a full disk.
"""

import os
import random
import signal
import time

import psutil
import pytest

from tests.acceptance.test_database_restarts import start_everything, start_job
from tests.support.disks import fill, small_disk
from tests.support.installations import copy_migrated
from tests.support.processes import QUICK_HEARTBEATS, Database, Machine, held_by, wait_for


@pytest.fixture
def machine(tmp_path):
    made = Machine(Database("dbname=none"), tmp_path)
    yield made
    made.clean_up()


@pytest.fixture
def home(tmp_path):
    """Return the directory of the machine's embedded server, which has a migrated database."""
    copy_migrated(tmp_path / "var")
    return tmp_path / "var" / "postgres"


def phase_of(browser, job_id):
    """Return the job's phase, or None while the API has no answer."""
    status, job = browser.get(f"jobs/{job_id}/")
    return job.get("phase") if status == 200 else None


def lose_server(home):
    """Kill the server and let every start of it fail. Return a function that repairs it."""
    control = home / "data" / "global" / "pg_control"
    aside = control.with_name("aside")
    control.rename(aside)
    os.kill(int((home / "data" / "postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)
    return lambda: aside.rename(control)


def test_a_crawl_survives_an_embedded_server_that_cannot_start_for_a_while(machine, home, serve, tmp_path):
    site = serve(pages=300, hosts=2, traps=3, latency_ms=40)
    _, browser = start_everything(machine, DATABASE_URL="", CRAWLCTL_VAR=str(tmp_path / "var"), **QUICK_HEARTBEATS)
    job_id = start_job(browser, site, output=tmp_path / "pages.jsonl")
    wait_for(lambda: site.count_requests() > 100, saying="the crawl is in progress")

    repair = lose_server(home)
    wait_for(lambda: "guardian: " in (home / "server.log").read_text(), saying="the guardian gives up")

    assert browser.ask("/")[0] == 503
    wait_for(lambda: "the embedded server does not start" in browser.ask("/")[1], saying="the page says why")
    status, problem = browser.get("jobs/")
    assert (status, problem["code"]) == (503, "database_unavailable")
    assert "the embedded server does not start" in problem["detail"]

    repair()

    wait_for(lambda: browser.get(f"jobs/{job_id}/")[1].get("phase") == "inactive", saying="the job has ended")
    assert held_by(tmp_path / "pages.jsonl") == site.documents


def test_a_crawl_continues_after_a_full_disk(machine, serve, tmp_path):
    site = serve(pages=300, hosts=2, traps=3, latency_ms=40)
    with small_disk(tmp_path / "disk", mebibytes=300) as disk:
        copy_migrated(disk / "var")
        _, browser = start_everything(
            machine, DATABASE_URL="", CRAWLCTL_VAR=str(disk / "var"), CRAWLCTL_FREE_DISK="0", **QUICK_HEARTBEATS
        )
        job_id = start_job(browser, site, output=tmp_path / "pages.jsonl")
        wait_for(lambda: site.count_requests() > 100, saying="the crawl is in progress")

        make_room = fill(disk)
        log = disk / "var" / "postgres" / "server.log"
        wait_for(
            lambda: "No space left on device" in log.read_text(errors="replace"),
            saying="the server reports the full disk",
        )
        make_room()

        wait_for(lambda: browser.get(f"jobs/{job_id}/")[1].get("phase") == "inactive", saying="the job has ended")
        assert held_by(tmp_path / "pages.jsonl") == site.documents
        machine.clean_up()


def postmaster_of(home):
    """Return the server's first process, or None while there is none."""
    try:
        return psutil.Process(int((home / "data" / "postmaster.pid").read_text().splitlines()[0]))
    except (OSError, IndexError, ValueError, psutil.NoSuchProcess):
        return None


def daemons_below(running):
    """Return the managers and workers that `manage.py run` has started."""
    children = psutil.Process(running.pid).children(recursive=True)
    return [child for child in children if {"runmanager", "runworker"} & set(child.cmdline())]


def test_a_crawl_survives_kills_of_its_server_and_of_its_daemons(machine, home, serve, tmp_path):
    site = serve(pages=900, hosts=2, traps=1, latency_ms=40)
    own = {"DATABASE_URL": "", "CRAWLCTL_VAR": str(tmp_path / "var")}
    running, browser = start_everything(machine, **own, **QUICK_HEARTBEATS)
    job_id = start_job(browser, site, output=tmp_path / "pages.jsonl")
    chance = random.Random(int(os.environ.get("CRAWLCTL_TEST_SEED", "1")))

    for _ in range(6):
        asked = site.count_requests()
        wait_for(lambda asked=asked: site.count_requests() > asked + 40, saying="the crawl goes on after a kill")
        candidates = [*daemons_below(running), postmaster_of(home)]
        for process in chance.sample([process for process in candidates if process is not None], k=2):
            process.kill()
        # A pause may be so short that the next kill interrupts the restart after this kill.
        time.sleep(chance.uniform(0, 1.5))

    wait_for(lambda: phase_of(browser, job_id) == "inactive", within=180, saying="the job has ended")
    assert held_by(tmp_path / "pages.jsonl") == site.documents
