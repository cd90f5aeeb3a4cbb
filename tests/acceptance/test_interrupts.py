"""Proves that an interrupted or killed crawl resumes, and ends like an undisturbed one."""

import signal
import time

import psutil
import pytest

from tests.support.processes import assert_exact, ended, held_by, wait_for

PAGES = 250


@pytest.fixture
def output(machine):
    return machine.directory / "pages.jsonl"


@pytest.fixture
def site(serve):
    """Return a site slow enough for an interrupt in the middle of a crawl."""
    return serve(pages=PAGES, hosts=2, traps=2, latency_ms=60)


def start_and_reach_the_middle(machine, site, output):
    crawl = machine.start_crawl(site.start_url, "--scope", "any", "--job", "site", "--workers", 2, output=output)
    wait_for(lambda: site.count_requests() > PAGES // 3, saying="the crawl is in its middle")
    return crawl


def refetches(site):
    """Return the number of answers 200 beyond the first one of each page."""
    return sum(times - 1 for (status, _), times in site.answers().items() if status == 200)


def test_an_interrupted_crawl_reports_it_and_is_resumed_to_the_exact_end(machine, site, output):
    crawl = start_and_reach_the_middle(machine, site, output)

    crawl.send(signal.SIGINT)
    interrupted = ended(crawl)
    requests_before = site.lines
    anew = ended(machine.start_crawl("--job", "site", output=output))
    resumed = ended(machine.start("crawl", "--resume", "--json"))

    assert anew.code == 2
    assert "--resume" in anew.err
    assert (interrupted.code, interrupted.facts["reason"]) == (130, "interrupted")
    assert interrupted.counts["waiting"] > 0
    assert interrupted.counts["processed"] < PAGES
    assert requests_before < PAGES
    # Open requests had ended before, so no page is requested twice.
    assert (resumed.code, resumed.facts["reason"]) == (0, "finished")
    assert_exact(site.compare_first_crawl(held_by(output)))
    assert resumed.counts["indexed"] == PAGES


@pytest.mark.parametrize("what", ["the crawl", "the crawl and its workers"])
def test_a_killed_crawl_is_resumed_and_loses_nothing(machine, site, output, what):
    crawl = start_and_reach_the_middle(machine, site, output)

    if what == "the crawl":
        workers = crawl.children()
        crawl.kill()
        # The workers notice the end of the crawl, and end too.
        psutil.wait_procs(workers, timeout=60)
    else:
        crawl.kill_with_children()
    # The command does not wait for nodes of this machine whose process no longer exists.
    began_at = time.monotonic()
    resumed = ended(machine.start("crawl", "--resume", "--job", "site", "--json"))

    assert (resumed.code, resumed.facts["reason"]) == (0, "finished")
    assert resumed.counts["indexed"] == PAGES
    assert held_by(output) == site.documents
    assert refetches(site) <= 2 * 256
    assert {url for status, url in site.answers() if status == 200} == site.documents
    assert time.monotonic() - began_at < 30


def test_a_job_in_progress_is_refused_and_a_second_interrupt_ends_immediately(machine, serve, output):
    site = serve(pages=20, traps=0, latency_ms=20_000)
    crawl = machine.start_crawl(site.start_url, "--job", "site", output=output)
    wait_for(site.count_requests, saying="the site has received a request")

    again = ended(machine.start_crawl("--job", "site", output=output))
    crawl.send(signal.SIGINT)
    wait_for(
        lambda: machine.database.value("SELECT pause FROM jobs_job") == "pausing",
        saying="the job is pausing after the interrupt",
    )
    crawl.send(signal.SIGINT)
    began_at = time.monotonic()

    assert again.code == 2
    # The message names one of the nodes that work on the job: the manager or a worker.
    assert any(str(node.id) in again.err for node in machine.database.rows("SELECT id FROM nodes_node"))
    assert ended(crawl).code == 130
    assert time.monotonic() - began_at < 5


def test_a_suspended_crawl_holds_no_lock_and_continues(machine, site, output):
    crawl = start_and_reach_the_middle(machine, site, output)
    manager = machine.database.value("SELECT id FROM nodes_node WHERE kind = 'manager'")
    transactions = (
        f"SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '{manager}%%' AND xact_start IS NOT NULL"
    )

    for _ in range(3):
        crawl.send(signal.SIGTSTP)
        wait_for(lambda: psutil.Process(crawl.pid).status() == psutil.STATUS_STOPPED, saying="the crawl is suspended")
        assert machine.database.value(transactions) == 0
        crawl.send(signal.SIGCONT)

    assert ended(crawl).code == 0
    assert_exact(site.compare_first_crawl(held_by(output)))
