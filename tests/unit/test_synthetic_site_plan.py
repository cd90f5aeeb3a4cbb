"""Proves the plan and the pages of the synthetic site, and the report on a crawl, without a socket or a database."""

import re
from dataclasses import replace
from urllib.parse import urldefrag, urljoin

import pytest

from crawlctl.demo.expectation import Expectation, compare, expect_first_crawl, expect_next_crawl
from crawlctl.demo.log import RequestLog, read_log
from crawlctl.demo.page import PageWriter, write_robots
from crawlctl.demo.plan import Revision, SitePlan, Trap, path_of, word_of
from tests.support.tables import each_row

HOSTS = ("http://127.0.0.1:8100", "http://127.0.0.2:8100", "http://127.0.0.3:8100")
SITE = SitePlan(seed=7, pages=1000, origins=HOSTS)


def body_of(plan, page):
    return PageWriter(plan).page(page, plan.outline(page)).decode()


def all_bodies(plan):
    writer = PageWriter(plan)
    return [writer.page(page, plan.outline(page)).decode() for page in range(plan.pages)]


def links_on(url, body):
    return [urldefrag(urljoin(url, href)).url for href in re.findall(r'href="([^"]*)"', body)]


def pages_reached_by_links(plan):
    """Follow the links in the HTML as a crawler would, and return the pages."""
    bodies, page_at = all_bodies(plan), {plan.url(page): page for page in range(plan.pages)}
    reached, waiting = {0}, [0]
    while waiting:
        page = waiting.pop()
        if plan.is_gone(page):
            continue
        linked = {page_at[url] for url in links_on(plan.url(page), bodies[page]) if url in page_at}
        waiting += linked - reached
        reached |= linked
    return reached


def test_two_plans_of_the_same_arguments_write_the_same_pages():
    assert all_bodies(SITE) == all_bodies(replace(SITE))


def test_another_seed_is_another_site():
    assert body_of(SITE, 5) != body_of(replace(SITE, seed=8), 5)


def test_pages_are_of_the_promised_size_and_have_the_promised_links():
    bodies = all_bodies(SITE)

    sizes = [len(body) for body in bodies]
    links = sorted(body.count("<a ") for body in bodies)

    assert 8_000 <= min(sizes) <= max(sizes) <= 19 * 1024
    assert 13_000 <= sum(sizes) / len(sizes) <= 15_000
    assert (links[0], links[-1]) == (18, 50)
    assert 32 <= links[len(links) // 2] <= 38


def test_links_of_every_spelling_occur_in_navigation_text_and_aside():
    body = body_of(SITE, 1)

    navigation, text, aside = re.fullmatch(
        r".*<nav>(.*)</nav>.*<main>(.*)</main>.*<aside>(.*)</aside>.*", body, re.DOTALL
    ).groups()

    assert 'href="/p/' in navigation
    assert 'href="../p/' in text
    assert "#notes" in aside
    assert all('href="http://127.0.0.' in part for part in (navigation, text, aside))


@each_row("pages", [1, 2, 3, 10, 1000])
def test_every_page_is_reached_by_links_from_the_first(pages):
    plan = replace(SITE, pages=pages)

    assert pages_reached_by_links(plan) == set(range(pages))


def test_few_pages_get_most_of_the_links():
    links = [target for page in range(SITE.pages) for target in SITE.outline(page).popular]

    to_the_first_hundredth = sum(target < SITE.pages // 100 for target in links)

    assert 0.15 < to_the_first_hundredth / len(links) < 0.35


def test_each_page_has_a_word_that_no_other_page_has():
    bodies = all_bodies(SITE)

    for page, body in enumerate(bodies):
        assert re.findall(r"\bword\w*x\b", body) == [word_of(page)]
    assert len({word_of(page) for page in range(SITE.pages)}) == SITE.pages


def test_a_few_percent_of_the_pages_have_each_trap_and_link_to_it():
    for trap in Trap:
        having = [page for page in range(SITE.pages) if trap in SITE.outline(page).traps]

        assert 5 <= len(having) <= 40
        for page in having:
            assert SITE.trap_url(page, trap) in links_on(SITE.url(page), body_of(SITE, page))


def test_robots_disallow_private_pages_and_set_a_delay_only_on_request():
    assert write_robots(crawl_delay=None) == b"User-agent: *\nDisallow: /private/\n"
    assert write_robots(crawl_delay=0.5).endswith(b"Crawl-delay: 0.5\n")


# --- Revisions -----------------------------------------------------------------------------------


REVISED = SITE.at_revision(1, Revision(change=10, gone=4))


def test_a_revision_changes_exactly_the_planned_bodies():
    before, after = all_bodies(SITE), all_bodies(REVISED)
    (changes,) = REVISED.changes

    differing = {page for page in range(SITE.pages) if before[page] != after[page]}

    assert differing == changes.changed
    assert 100 <= len(changes.changed) <= 100 + len(changes.gone_unlinked)


def test_half_of_the_removed_pages_answer_404_and_half_are_unlinked():
    (changes,) = REVISED.changes

    assert len(changes.gone_404) == len(changes.gone_unlinked) == 20
    assert all(map(REVISED.is_gone, changes.gone_404))
    assert not any(map(REVISED.is_gone, changes.gone_unlinked))


def test_a_revised_site_links_every_remaining_page_and_no_other():
    (changes,) = REVISED.changes

    reached = pages_reached_by_links(REVISED)

    assert reached == set(range(SITE.pages)) - changes.gone_unlinked
    assert REVISED.documents() == reached - changes.gone_404


def test_a_second_revision_keeps_the_changes_of_the_first():
    twice = REVISED.at_revision(2, Revision(change=5, gone=2))
    first, second = twice.changes

    before, after = all_bodies(REVISED), all_bodies(twice)

    assert first == REVISED.changes[0]
    gone_before = first.gone_404 | first.gone_unlinked
    assert {page for page in range(SITE.pages) if before[page] != after[page]} == second.changed
    assert not gone_before & (second.changed | second.gone_404 | second.gone_unlinked)
    assert twice.documents() == REVISED.documents() - second.gone_404 - second.gone_unlinked


def test_a_revision_can_be_replaced_and_taken_back():
    other = REVISED.at_revision(1, Revision(gone=2))

    assert other == SITE.at_revision(1, Revision(gone=2))
    assert other.before_revisions() == SITE


def test_stamps_of_different_revisions_differ_and_older_stamps_stay():
    other = SITE.at_revision(1, Revision(change=10, gone=8))

    assert REVISED.stamp(0) == other.stamp(0) == SITE.stamp(0)
    assert REVISED.stamp(1) != other.stamp(1)


def test_a_broken_page_and_pages_linked_only_from_it_stay_unchanged():
    broken = SITE.only_parents()[3]
    plan = SITE.at_revision(1, Revision(change=50, gone=10, broken=broken))
    (changes,) = plan.changes

    family = {broken, 2 * broken + 1, 2 * broken + 2}

    assert plan.broken == broken
    assert family <= plan.documents()
    assert broken not in changes.changed


@each_row("pages", [11, 15, 999, 1000])
def test_some_parents_are_the_only_pages_that_link_to_their_children(pages):
    plan = replace(SITE, pages=pages)
    outlines = [plan.outline(page) for page in range(pages)]
    linked = [target for outline in outlines for target in (*outline.popular, outline.redirect_target)]

    for parent in plan.only_parents():
        assert not {2 * parent + 1, 2 * parent + 2} & set(linked)
        assert 2 * parent + 2 < pages
    assert plan.only_parents()


@each_row(
    ("make", "sentence"),
    [
        (lambda: replace(SITE, pages=0), "at least 1 is needed"),
        (lambda: replace(SITE, origins=()), "at least 1 is needed"),
        (lambda: replace(SITE, traps=101), "only 0 to 100 is possible"),
        (lambda: Revision(change=-1), "only 0 to 100 is possible"),
        (lambda: Revision(gone=21), "only 0 to 20 is possible"),
        (lambda: Revision(gone=float("nan")), "only 0 to 20 is possible"),
        (lambda: SITE.at_revision(2, Revision()), "only 0 to 1 can be next"),
        (lambda: SITE.at_revision(1, Revision(broken=1000)), "the pages are 0 to 999"),
        (lambda: SITE.at_revision(1, Revision(change=95, gone=20)).changes, "only .* are left for that"),
    ],
    ids=[
        "no page",
        "no host",
        "too many traps",
        "a negative change",
        "too many gone",
        "not a number",
        "a revision skipped",
        "a page that is not there",
        "more than there is",
    ],
)
def test_an_invalid_value_is_refused_with_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


# --- The report on a crawl -----------------------------------------------------------------------


def test_a_first_crawl_is_expected_to_request_each_reachable_page_once():
    expectation = expect_first_crawl(SITE)

    assert expectation.documents == SITE.urls(range(SITE.pages))
    for page in range(SITE.pages):
        outline = SITE.outline(page)
        assert expectation.statuses[SITE.url(page)] == ((500, 200) if outline.is_flaky else (200,))
        for trap in outline.traps:
            wanted = {Trap.REDIRECT: (301,), Trap.MISSING: (404,), Trap.PRIVATE: ()}[trap]
            assert expectation.statuses[SITE.trap_url(page, trap)] == wanted
    assert {(500, 200), (301,), (404,), ()} <= set(expectation.statuses.values())


def test_the_next_crawl_is_expected_to_get_a_body_only_for_changes():
    (changes,) = REVISED.changes

    expectation = expect_next_crawl(REVISED)

    def pages_answered(status):
        return {page for page in range(SITE.pages) if expectation.statuses.get(REVISED.url(page)) == (status,)}

    assert pages_answered(200) == changes.changed
    assert pages_answered(404) == changes.gone_404
    assert pages_answered(304) == REVISED.documents() - changes.changed
    assert expectation.documents == REVISED.urls(REVISED.documents())
    assert not REVISED.urls(changes.gone_unlinked) & expectation.statuses.keys()


def test_the_next_crawl_of_an_unchanged_site_is_expected_to_get_no_body():
    expectation = expect_next_crawl(SITE)

    assert {expectation.statuses[SITE.url(page)] for page in range(SITE.pages)} == {(304,)}


def test_no_result_is_predicted_for_a_site_with_a_broken_page():
    plan = SITE.at_revision(1, Revision(broken=17))

    with pytest.raises(ValueError, match="page 17 is broken"):
        expect_first_crawl(plan)


PAGE, MOVED, SECRET = f"{HOSTS[0]}/", f"{HOSTS[0]}/redirect/3", f"{HOSTS[0]}/private/6"
EXPECTED = Expectation(statuses={PAGE: (500, 200), MOVED: (301,), SECRET: ()}, documents=frozenset({PAGE}))
EXACT = [(500, "/"), (200, "/"), (301, "/redirect/3")]


@pytest.fixture
def write_log(tmp_path):
    def write(requests):
        log = RequestLog(tmp_path / "site.log")
        for at, (status, path) in enumerate(requests):
            log.write(
                at=at,
                host="127.0.0.1:8100",
                path=path,
                status=status,
                open_requests=1,
                method="GET",
                agent="crawlctl",
            )
        log.close()
        return tmp_path / "site.log"

    return write


def test_an_exact_crawl_is_reported_as_exact(write_log):
    log = write_log([(200, "/robots.txt"), *EXACT])

    report = compare(log=log, expectation=EXPECTED, indexed_urls=[PAGE])

    assert report.is_exact
    assert report.as_json() == (
        f'{{"site_log": "{log}", "expected": 1, "fetched": 1, "indexed": 1, "missing": 0, "extra": 0}}'
    )


@pytest.mark.parametrize(
    ("requests", "indexed", "missing", "extra"),
    [
        (EXACT[:2], [PAGE], [f"301 {MOVED}"], []),
        (EXACT, [], [f"indexed {PAGE}"], []),
        ([*EXACT, (200, "/")], [PAGE], [], [f"200 {PAGE}"]),
        ([*EXACT, (200, "/private/6")], [PAGE], [], [f"200 {SECRET}"]),
        ([*EXACT, (404, "/elsewhere")], [PAGE], [], [f"404 {HOSTS[0]}/elsewhere"]),
        (EXACT, [PAGE, MOVED], [], [f"indexed {MOVED}"]),
    ],
)
def test_missing_and_surplus_documents_of_a_crawl_are_named(write_log, requests, indexed, missing, extra):
    report = compare(log=write_log(requests), expectation=EXPECTED, indexed_urls=indexed)

    assert (list(report.missing), list(report.extra)) == (missing, extra)
    assert not report.is_exact


def test_the_part_of_a_log_that_belongs_to_an_earlier_crawl_can_be_skipped(write_log):
    log = write_log([(200, "/private/6"), *EXACT])

    assert compare(log=log, expectation=EXPECTED, indexed_urls=[PAGE], skip=1).is_exact


def test_a_line_that_is_still_being_written_is_not_read(write_log):
    log = write_log(EXACT)
    with log.open("a") as file:
        file.write("12345\t127.0.0.1:8100\t/p/1")

    assert [(request.status, request.path) for request in read_log(log)] == EXACT


def test_the_path_of_the_first_page_is_the_root():
    assert (path_of(0), path_of(12)) == ("/", "/p/12.html")
