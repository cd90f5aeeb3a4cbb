"""
Proves that daemons end, restart and lose no document after their database was restored to an older state while they
ran.
"""

import signal
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.test_database_restarts import Browser, start_everything, start_job
from tests.support.debian import debian_server, debian_standby, newest_debian
from tests.support.processes import QUICK_HEARTBEATS, Command, Database, Machine, RunningSite, held_by, wait_for

pytestmark = pytest.mark.debian("postgresql")

SITE = {"pages": 400, "hosts": 2, "traps": 1, "latency_ms": 40}
# Settings with which no node sends a heartbeat between a backup and the end of its server. So heartbeats cannot show
# that the database was set back.
SLOW_HEARTBEATS = {"CRAWLCTL_HEARTBEAT_INTERVAL": "10", "CRAWLCTL_NODE_TIMEOUT": "24"}


@pytest.fixture
def server(tmp_path):
    with debian_server(tmp_path / "server", is_migrated=True) as running:
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


@dataclass
class Crawl:
    """A crawl by `manage.py run`, whose database is set back to an older state. `before` has its nodes until then."""

    machine: Machine
    site: RunningSite
    output: Path
    running: Command
    browser: Browser
    job_id: int
    before: frozenset = frozenset()

    @classmethod
    def start(cls, machine, site, **environment):
        """Start the crawl, and wait until the site has answered 40 requests. Return the crawl."""
        running, browser = start_everything(machine, **environment)
        output = machine.directory / "pages.jsonl"
        made = cls(machine, site, output, running, browser, start_job(browser, site, output=output))
        wait_for_requests(site, 40)
        return made

    def dump(self, server, *, older_by):
        """Dump the database, and return the file when the site has answered this many requests since."""
        dump = self.machine.directory / "crawlctl.dump"
        # The crawl must not end during the dump, so the site keeps its requests open meanwhile.
        with self.site.silent():
            run_program("pg_dump", "-Fc", "-f", dump, "-d", server.address)
            self.before = nodes(self.machine)
        wait_for_requests(self.site, self.site.count_requests() + older_by)
        return dump

    def assert_nothing_is_lost(self):
        """
        Assert that nodes that are not in `before` end the run, with each document of the site in queue and output.
        """
        ended = f"jobs/{self.job_id}/"
        wait_for(lambda: self.browser.get(ended)[1].get("phase") == "inactive", saying="the job has ended")
        read = self.machine.database.rows("SELECT identifier FROM jobs_queueitem WHERE stage = 2")
        assert self.site.documents - {row.identifier for row in read} == set()
        assert held_by(self.output) == self.site.documents
        assert not self.before & nodes(self.machine)

    def assert_it_noticed(self):
        """Assert that a node noticed that the database was set back to an older state."""
        assert "the database went back in time" in self.running.err, self.running.err


def replace_database(server, *, dump):
    """Replace the crawl's database by one that is restored from a dump."""
    run_program("psql", "-qc", "CREATE DATABASE restored", at("postgres", server))
    run_program("pg_restore", "--exit-on-error", "-d", at("restored", server), dump)
    swap = ("-c", "DROP DATABASE crawlctl WITH (FORCE)", "-c", "ALTER DATABASE restored RENAME TO crawlctl")
    run_program("psql", "-q", *swap, at("postgres", server))


def restore_over(server, *, dump):
    """
    Restore a dump into the crawl's database while the crawl runs.

    PostgreSQL may end the restore for a deadlock with a statement of the crawl. It is one transaction, so it is repeated.
    """
    for is_last in (False, False, True):
        try:
            run_program("pg_restore", "--clean", "--single-transaction", "-d", server.address, dump)
        except subprocess.CalledProcessError:
            if is_last:
                raise
        else:
            return


def test_a_crawl_loses_nothing_to_a_restore_of_an_older_dump(machine, server, serve):
    crawl = Crawl.start(machine, serve(**SITE), **QUICK_HEARTBEATS)

    replace_database(server, dump=crawl.dump(server, older_by=150))

    crawl.assert_nothing_is_lost()
    crawl.assert_it_noticed()


def test_a_crawl_loses_nothing_to_a_restore_into_the_same_database(machine, server, serve):
    crawl = Crawl.start(machine, serve(**SITE), **QUICK_HEARTBEATS)
    dump = crawl.dump(server, older_by=100)

    restore_over(server, dump=dump)

    crawl.assert_nothing_is_lost()
    crawl.assert_it_noticed()


def test_a_crawl_loses_nothing_to_the_promotion_of_a_standby_that_lags(machine, server, serve, tmp_path):
    crawl = Crawl.start(machine, serve(pages=800, hosts=2, traps=1, latency_ms=100), **SLOW_HEARTBEATS)
    with ExitStack() as stack:
        # As in `dump`.
        with crawl.site.silent():
            standby = stack.enter_context(debian_standby(server, tmp_path / "standby"))
        wait_for_requests(crawl.site, crawl.site.count_requests() + 60)
        crawl.before = nodes(machine)

        server.end(signal.SIGKILL)
        standby.start()
        standby.promote()

        crawl.assert_nothing_is_lost()
        assert "its incarnation was" in crawl.running.err
        machine.clean_up()
