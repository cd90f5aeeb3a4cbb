"""Proves by the site's log that `manage.py crawl` fetches exactly the pages of the synthetic site's plan."""

from collections import Counter

import pytest

from tests.support.processes import assert_exact, ended, held_by, host_of, reachable, read_lines, wait_for


def requested_urls(site):
    return {request.url for request in site.requests()}


# --- Everything, once ----------------------------------------------------------------------------


def test_every_page_is_fetched_once_and_counted_under_its_result(machine, serve):
    site = serve(pages=200, hosts=3, traps=5)
    output = machine.directory / "pages.jsonl"

    crawl = machine.crawl(site.start_url, "--scope", "any", "--workers", 2, output=output)

    assert (crawl.code, crawl.facts["reason"]) == (0, "finished")
    assert_exact(site.compare_first_crawl(held_by(output)))
    traps = Counter(trap for page in range(200) for trap in site.plan.outline(page).traps)
    assert crawl.codes == {
        "200": 200,
        "404": traps["missing"],
        "REDIRECT": traps["redirect"],
        "ROBOTS": traps["private"],
    }
    assert crawl.counts == {
        "processed": 200 + traps.total(),
        "indexed": 200,
        "unchanged": 0,
        "deleted": 0,
        "failed": traps["missing"],
        "excluded": traps["redirect"] + traps["private"],
        "waiting": 0,
    }
    assert len(read_lines(output)) == 200


def test_every_text_can_be_searched_when_the_crawl_has_ended(machine, serve):
    site = serve(pages=200, hosts=1, traps=0)

    crawl = machine.crawl(site.start_url, "--output", "search")

    waiting = "SELECT count(*) AS texts, count(*) FILTER (WHERE vector IS NULL) AS waiting FROM jobs_searchdocument"
    assert crawl.code == 0
    assert machine.database.rows(waiting) == [(200, 0)]


def test_each_worker_sends_an_identifier_to_the_database_about_once(machine, serve):
    site = serve(pages=1_000, hosts=4, traps=0)

    crawl = machine.crawl(site.start_url, "--scope", "any", "--workers", 2)

    assert crawl.counts["indexed"] == 1_000
    assert 1_000 <= crawl.facts["offered"] <= 1.3 * 2 * 1_000


def test_a_crawl_of_exactly_its_limit_finishes_and_prints_its_summary(machine, serve):
    site = serve(pages=20, traps=0)
    output = machine.directory / "pages.jsonl"

    crawl = machine.crawl(site.start_url, "--job", "a crawl with a name", "--max-documents", 20, output=output)

    assert crawl.facts.keys() == {
        "job",
        "counts",
        "seconds",
        "documents_per_second",
        "bytes",
        "offered",
        "result_codes",
        "reason",
    }
    assert (crawl.code, crawl.facts["reason"], crawl.facts["job"]) == (0, "finished", "a crawl with a name")
    assert 0 < crawl.facts["seconds"] < 60
    assert crawl.facts["documents_per_second"] == pytest.approx(20 / crawl.facts["seconds"], rel=0.02)
    assert crawl.facts["bytes"] > 20 * 8_000
    (start,) = (line for line in read_lines(output) if line["url"] == site.start_url)
    assert {"action", "url", "title", "text", "content_type", "fetched_at", "version"} <= start.keys()
    assert (start["action"], start["title"], start["content_type"]) == (
        "add",
        "Page 0 of the synthetic site",
        "text/html",
    )


def test_two_crawls_that_start_together_on_a_new_database_both_work(new_machine, serve):
    site = serve(pages=10, traps=0)

    crawls = [new_machine.start_crawl(site.start_url, "--workers", 1) for _ in range(2)]

    assert [ended(crawl).counts["indexed"] for crawl in crawls] == [10, 10]


# --- Limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 3])
def test_a_document_limit_is_reached_exactly(machine, serve, workers):
    # Documents excluded by robots.txt and retries do not count against the limit.
    site = serve(pages=150, hosts=2, traps=8)

    crawl = machine.crawl(site.start_url, "--scope", "any", "--max-documents", 60, "--workers", workers)

    assert (crawl.code, crawl.facts["reason"]) == (0, "document_limit")
    assert len(requested_urls(site)) == 60


def test_a_crawl_with_a_depth_limit_reads_exactly_the_pages_within_the_limit(machine, serve):
    # Few of the 400 pages have many links to them, so the depths differ. Two hosts make the order matter.
    site = serve(pages=400, hosts=2, traps=5, latency_ms=5)
    expected = reachable(site.plan, most_links=2)
    assert len(reachable(site.plan, most_links=1)) < len(expected) < len(reachable(site.plan, most_links=3))

    crawl = machine.crawl(site.start_url, "--scope", "any", "--max-depth", 2, "--workers", 2)

    assert (crawl.code, crawl.facts["reason"]) == (0, "finished")
    assert requested_urls(site) == expected


# --- Scopes and rules ----------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["host", "domain"])
def test_another_port_is_another_host_of_the_same_domain(machine, serve, scope):
    site = serve(pages=120, hosts=2, host_style="ports", traps=5)
    home = host_of(site.start_url)

    crawl = machine.crawl(site.start_url, "--scope", scope)

    assert crawl.code == 0
    allowed = {"host": lambda url: host_of(url) == home, "domain": lambda _url: True}[scope]
    assert requested_urls(site) == reachable(site.plan, allows=allowed)


def test_a_prefix_matches_all_addresses_that_start_with_it(machine, serve):
    site = serve(pages=120, hosts=2, traps=5)
    seed = site.plan.url(2)
    prefix = seed.rpartition("/")[0]

    crawl = machine.crawl(seed, "--scope", "prefix")

    assert crawl.code == 0
    assert requested_urls(site) == reachable(site.plan, start=2, allows=lambda url: url.startswith(f"{prefix}/"))


def test_exclude_rules_keep_matching_documents_out_of_the_crawl(machine, serve):
    site = serve(pages=150, hosts=1, traps=5)

    crawl = machine.crawl(
        *(site.start_url, "--include", r"/$", "--include", r"/p/", "--include", "/redirect/"),
        *("--exclude", r"/p/\d*7\.html"),
    )

    def allowed(url):
        return ("/p/" in url or "/redirect/" in url) and not url.endswith("7.html")

    assert crawl.code == 0
    assert requested_urls(site) == reachable(site.plan, allows=lambda url: url == site.start_url or allowed(url))


def test_several_seeds_reach_the_union_of_their_scopes(machine, serve):
    first, second = serve(pages=40, traps=0), serve(pages=30, traps=0, seed=2)

    crawl = machine.crawl(first.start_url, second.start_url)

    assert crawl.counts["indexed"] == 70
    assert requested_urls(first) == first.documents
    assert requested_urls(second) == second.documents


# --- Bad usage -----------------------------------------------------------------------------------

URL = "http://127.0.0.1:9/"
BAD_USAGE = {
    "ftp://127.0.0.1/": ["ftp://127.0.0.1/"],
    "http://": ["http://"],
    "no address": ["--scope", "any"],
    "regular expression": [URL, "--include", "("],
    "non-linear expression": [URL, "--exclude", "(?=x)"],
    "negative limit": [URL, "--max-documents", "-1"],
    "huge limit": [URL, "--max-documents", "1" + 30 * "0"],
    "negative depth": [URL, "--max-depth", "-1"],
    "NaN": [URL, "--delay", "nan"],
    "a rate of nothing": [URL, "--rate", "0/minute"],
    "half a rate": [URL, "--rate", "30"],
    "no bytes": [URL, "--bytes-per-second", "0"],
    "no workers": [URL, "--workers", "0"],
    "output": [URL, "--output", "paper"],
    "unwritable output": [URL, "--output", "jsonl:/proc/none/out.jsonl"],
    "nothing to resume": ["--resume"],
}


def test_invalid_options_of_a_crawl_are_refused_and_change_nothing(machine):
    started = {}
    for name, arguments in BAD_USAGE.items():
        started[name] = machine.start("crawl", *arguments)
        # At most two commands run at a time. All at once would not be faster, and would slow other tests on this
        # machine.
        wait_for(lambda: sum(not crawl.has_ended for crawl in started.values()) < 2, saying="at most one command runs")
    refused = {name: ended(crawl) for name, crawl in started.items()}

    assert {name: crawl.code for name, crawl in refused.items()} == dict.fromkeys(BAD_USAGE, 2)
    for name, crawl in refused.items():
        assert 20 < len(crawl.err.strip()) < 1000, f"{name}: {crawl.err}"
    assert machine.database.value("SELECT count(*) FROM jobs_job") == 0
