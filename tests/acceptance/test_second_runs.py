"""Proves that a second run writes exactly the changes of the site to the output, even if its workers fail."""

import re
import signal
from collections import Counter

import pytest

from crawlctl.demo.plan import Trap
from tests.support.processes import ended, held_by, read_lines, wait_for


@pytest.fixture
def output(machine):
    return machine.directory / "pages.jsonl"


def crawl_first(machine, site, output):
    """Crawl the site into the output, and return the number of lines."""
    crawl = machine.crawl(site.start_url, "--scope", "any", "--job", "site", output=output)
    assert (crawl.code, held_by(output)) == (0, site.documents)
    return len(read_lines(output))


def lines_by_action(output, *, since, may_repeat=False):
    """
    Return the URLs of the lines written since then, by action. Only a writer that died before its commit may repeat a
    URL.
    """
    lines = read_lines(output, since=since)
    actions = {action: {line["url"] for line in lines if line["action"] == action} for action in ("add", "delete")}
    assert may_repeat or len(lines) == sum(map(len, actions.values()))
    return actions


def trap_urls(site, trap):
    plan = site.plan
    return {plan.trap_url(page, trap) for page in range(plan.pages) if trap in plan.outline(page).traps}


def test_a_second_run_of_an_unchanged_site_writes_nothing_and_gets_only_304(machine, serve, output):
    site = serve(pages=150, hosts=2, traps=4)
    written = crawl_first(machine, site, output)
    requests_before = site.lines

    crawl = machine.crawl("--job", "site", "--workers", 2, output=output)

    assert (crawl.code, crawl.facts["reason"]) == (0, "finished")
    assert read_lines(output, since=written) == []
    assert {url for status, url in site.answers(since=requests_before) if status == 304} == site.documents
    assert {url for status, url in site.answers(since=requests_before) if status == 404} == trap_urls(
        site, Trap.MISSING
    )
    assert max(site.answers(since=requests_before).values()) == 1
    assert (crawl.counts["unchanged"], crawl.counts["indexed"], crawl.counts["deleted"]) == (150, 0, 0)
    assert crawl.codes["304"] == 150


def test_a_second_run_writes_changes_and_keeps_documents_below_a_failed_page(machine, serve, output):
    site = serve(pages=200, hosts=2, traps=0)
    written = crawl_first(machine, site, output)
    # The children of this page have no other link, so a parent mistaken for removed would remove them too.
    parent = site.plan.only_parents()[0]
    changes = site.revise(change=10, gone=8, broken=parent)
    requests_before = site.lines

    crawl = machine.crawl("--job", "site", "--workers", 2, output=output)

    assert (crawl.code, crawl.codes["500"]) == (0, 1)
    gone = site.plan.urls(changes.gone_404 | changes.gone_unlinked)
    assert lines_by_action(output, since=written) == {"add": site.plan.urls(changes.changed), "delete": gone}
    assert held_by(output) == site.documents
    assert (crawl.counts["indexed"], crawl.counts["deleted"]) == (len(changes.changed), len(gone))
    # Pages without a link are not requested. They leave the output because the run did not reach them.
    assert not site.plan.urls(changes.gone_unlinked) & {request.url for request in site.requests(since=requests_before)}


def test_narrowed_rules_prevent_requests_below_a_page_that_fails(machine, serve, output):
    site = serve(pages=60, hosts=1, traps=0)
    written = crawl_first(machine, site, output)
    # The two children of this page have no other link. The rules refuse the first child.
    parent = site.plan.only_parents()[0]
    refused, kept = site.plan.url(2 * parent + 1), site.plan.url(2 * parent + 2)
    site.revise(change=0, gone=0, broken=parent)
    requests_before = site.lines

    crawl = machine.crawl("--job", "site", "--exclude", f"{re.escape(refused)}$", output=output)

    assert (crawl.code, crawl.codes["500"]) == (0, 1)
    requested = {request.url for request in site.requests(since=requests_before)}
    assert (refused in requested, kept in requested) == (False, True)
    assert lines_by_action(output, since=written)["delete"] == {refused}
    assert held_by(output) == site.documents - {refused}


def test_a_worker_killed_between_writes_changes_no_written_document(machine, serve, output):
    site = serve(pages=250, hosts=2, traps=0, latency_ms=40)
    written = crawl_first(machine, site, output)
    changes = site.revise(change=10, gone=8)
    requests_before = site.lines

    crawl = machine.start_crawl("--job", "site", "--workers", 2, output=output)
    wait_for(lambda: site.count_requests() > requests_before + 80, saying="the second run is half done")
    killed_worker = crawl.children()[0]
    at_work = f"""
        SELECT count(*) FROM nodes_node AS node JOIN jobs_batch AS batch ON batch.worker_id = node.id AND batch.state = 'sent'
         WHERE node.pid = {killed_worker.pid} AND node.status = 'running'
    """
    wait_for(lambda: machine.database.value(at_work) > 0, saying="the worker that is killed has documents")
    killed_worker.send_signal(signal.SIGKILL)
    crawl = ended(crawl)

    assert (crawl.code, crawl.facts["reason"]) == (0, "finished")
    gone = site.plan.urls(changes.gone_404 | changes.gone_unlinked)
    found = lines_by_action(output, since=written, may_repeat=True)
    assert found == {"add": site.plan.urls(changes.changed), "delete": gone}
    assert held_by(output) == site.documents
    requests = Counter(request.url for request in site.requests(since=requests_before))
    assert sum(times - 1 for times in requests.values()) <= 256


def test_a_run_that_ends_at_its_limit_deletes_nothing(machine, serve, output):
    site = serve(pages=120, hosts=1, traps=0)
    written = crawl_first(machine, site, output)
    changes = site.revise(gone=10)

    crawl = machine.crawl("--job", "site", "--max-documents", 60, output=output)

    assert crawl.facts["reason"] == "document_limit"
    deleted = lines_by_action(output, since=written)["delete"]
    assert deleted <= site.plan.urls(changes.gone_404)
    assert site.plan.urls(changes.gone_unlinked) <= held_by(output)
