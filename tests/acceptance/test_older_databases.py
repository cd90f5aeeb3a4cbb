"""
Proves that daemons end, restart and lose no document after the database was restored to an older state under them.
"""

import signal
import subprocess

import pytest

from tests.acceptance.test_database_restarts import start_everything, start_job
from tests.support.debian import debian_server, debian_standby, newest_debian
from tests.support.processes import QUICK_HEARTS, Database, Machine, held_by, wait_for

pytestmark = pytest.mark.debian("postgresql")

# No node beats between a backup and the end of its server, so a change of heartbeats proves nothing.
SLOW_HEARTS = {"CRAWLCTL_HEARTBEAT_INTERVAL": "10", "CRAWLCTL_NODE_TIMEOUT": "24"}


@pytest.fixture
def server(tmp_path):
    with debian_server(tmp_path / "server") as running:
        yield running


@pytest.fixture
def machine(server, tmp_path):
    made = Machine(Database(server.address), tmp_path)
    yield made
    made.clean_up()


def run_program(name, *arguments):
    subprocess.run([newest_debian() / name, *arguments], check=True, timeout=60)


def at(database, server):
    return server.address.replace("/crawlctl?", f"/{database}?")


def wait_for_requests(site, number):
    wait_for(lambda: site.count_requests() >= number, saying=f"the site has answered {number} requests")


def nodes(machine):
    return {row.id for row in machine.database.rows("SELECT id FROM nodes_node WHERE stopped_at IS NULL")}


def assert_nothing_is_lost(machine, browser, site, job_id, *, before, output):
    """Assert that other nodes than `before` end the run, with each document of the site in the queue and the output."""
    wait_for(lambda: browser.get(f"jobs/{job_id}/")[1].get("phase") == "inactive", saying="the job has ended")
    read = {row.identifier for row in machine.database.rows("SELECT identifier FROM jobs_queueitem WHERE stage = 2")}
    assert site.documents - read == set()
    assert held_by(output) == site.documents
    assert not before & nodes(machine)


def test_a_crawl_loses_nothing_to_a_restore_of_an_older_dump(machine, server, serve, tmp_path):
    site = serve(pages=400, hosts=2, traps=1, latency_ms=40)
    running, browser = start_everything(machine, **QUICK_HEARTS)
    job_id = start_job(browser, site, output=tmp_path / "pages.jsonl")
    wait_for_requests(site, 40)
    dump = tmp_path / "crawlctl.dump"
    run_program("pg_dump", "-Fc", "-f", dump, "-d", server.address)
    before = nodes(machine)
    wait_for_requests(site, site.count_requests() + 150)

    run_program("psql", "-qc", "CREATE DATABASE restored", at("postgres", server))
    run_program("pg_restore", "--exit-on-error", "-d", at("restored", server), dump)
    swap = ("-c", "DROP DATABASE crawlctl WITH (FORCE)", "-c", "ALTER DATABASE restored RENAME TO crawlctl")
    run_program("psql", "-q", *swap, at("postgres", server))

    assert_nothing_is_lost(machine, browser, site, job_id, before=before, output=tmp_path / "pages.jsonl")
    assert "the database went back in time" in running.err, running.err


def test_a_crawl_loses_nothing_to_a_restore_into_the_same_database(machine, server, serve, tmp_path):
    site = serve(pages=400, hosts=2, traps=1, latency_ms=40)
    running, browser = start_everything(machine, **QUICK_HEARTS)
    job_id = start_job(browser, site, output=tmp_path / "pages.jsonl")
    wait_for_requests(site, 40)
    dump = tmp_path / "crawlctl.dump"
    run_program("pg_dump", "-Fc", "-f", dump, "-d", server.address)
    before = nodes(machine)
    wait_for_requests(site, site.count_requests() + 100)

    run_program("pg_restore", "--clean", "--single-transaction", "-d", server.address, dump)

    assert_nothing_is_lost(machine, browser, site, job_id, before=before, output=tmp_path / "pages.jsonl")
    assert "the database went back in time" in running.err, running.err


def test_a_crawl_loses_nothing_to_the_promotion_of_a_standby_that_lags(machine, server, serve, tmp_path):
    site = serve(pages=800, hosts=2, traps=1, latency_ms=100)
    running, browser = start_everything(machine, **SLOW_HEARTS)
    job_id = start_job(browser, site, output=tmp_path / "pages.jsonl")
    wait_for_requests(site, 40)
    with debian_standby(server, tmp_path / "standby") as standby:
        wait_for_requests(site, site.count_requests() + 60)
        before = nodes(machine)

        server.end(signal.SIGKILL)
        standby.start()
        standby.promote()

        assert_nothing_is_lost(machine, browser, site, job_id, before=before, output=tmp_path / "pages.jsonl")
        assert "its incarnation was" in running.err
        machine.clean_up()
