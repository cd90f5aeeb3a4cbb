"""Proves that freshness goals reach nearly the best possible freshness, and predict it. Virtual time, no database."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.connectors.repository.freshness_goals import check_goals, goals_in_words, parse_goals, read_goals
from jobs.freshness.looks import fresh_now, fresh_share, looks, price_at
from jobs.freshness.plans import Demand, plan
from jobs.freshness.pricing import GoalTerms, LanePlan, LaneSample, Seen, price_host
from jobs.freshness.rates import NO_EVIDENCE, RATES, UNKNOWN, after_look, chances, pack, prior_of, unpack
from jobs.freshness.templates import template_of
from tests.support.changing_pages import DAY, HOUR, Best, Fixed, Nutch, Ours, freshness, skewed_site
from tests.support.tables import each_row

LEAST = 0.9


def chances_of(rate):
    """
    Return the probability of each rate of the table, for a document that certainly has the rate nearest to `rate`.
    """
    nearest = min(RATES, key=lambda one: abs(math.log(one / rate)))
    return tuple(float(one == nearest) for one in RATES)


# --- Against other schedules -----------------------------------------------------------------------


@each_row("looks_a_day, within", [(0.25, 0.0), (1.0, HOUR), (4.0, 0.0)])
def test_goals_reach_90_percent_of_the_best_freshness_and_beat_schedules(looks_a_day, within):
    site = skewed_site(pages=110, hosts=1, looks_per_page_and_day=looks_a_day, within=within, seed=1)

    def reached(schedule):
        return freshness(site, schedule, days=30 / looks_a_day, warm_up=10 / looks_a_day, seed=3)

    best, ours, fixed, nutch = (reached(kind(site)) for kind in (Best, Ours, Fixed, Nutch))

    assert best >= max(ours, fixed, nutch) - 0.01
    assert ours >= LEAST * best
    assert ours > fixed
    assert ours > nutch


def test_a_plan_expects_the_freshness_that_its_looks_reach():
    site = skewed_site(pages=80, hosts=1, looks_per_page_and_day=1.0, within=HOUR, seed=5)
    ours = Ours(site)

    reached = freshness(site, ours, days=30, warm_up=20, seed=5)

    last = ours.expected[-80:]
    assert sum(last) / len(last) == pytest.approx(reached, abs=0.05)


# --- Rates -----------------------------------------------------------------------------------------


def test_looks_estimate_a_steady_change_rate():
    evidence = NO_EVIDENCE
    for number in range(60):
        evidence = after_look(evidence, HOUR, changed=number % 3 == 0)

    likely = chances(evidence, UNKNOWN)

    # A third of the hours has a change: 0.405 changes an hour.
    assert RATES[likely.index(max(likely))] == pytest.approx(0.405 / HOUR, rel=0.8)


def test_a_document_that_changes_at_each_look_may_change_at_any_faster_rate():
    evidence = NO_EVIDENCE
    for _ in range(20):
        evidence = after_look(evidence, 4 * DAY, changed=True)

    likely = chances(evidence, UNKNOWN)

    fast = [chance for rate, chance in zip(RATES, likely, strict=True) if rate > 4 / DAY]
    unknown = [chance for rate, chance in zip(RATES, UNKNOWN, strict=True) if rate > 4 / DAY]
    assert [one / sum(fast) for one in fast] == pytest.approx([one / sum(unknown) for one in unknown], rel=0.01)
    assert sum(likely[:5]) < 0.001


def test_a_new_document_starts_with_the_change_rate_of_its_template():
    slow = after_look(NO_EVIDENCE, 20 * DAY, changed=False)

    prior = prior_of([slow] * 50)

    assert sum(chance for rate, chance in zip(RATES, prior, strict=True) if rate < 1 / (5 * DAY)) > 0.9


@given(st.lists(st.tuples(st.floats(0, 1e9), st.booleans()), max_size=30))
def test_evidence_of_changes_survives_storage(seen):
    evidence = NO_EVIDENCE
    for seconds, changed in seen:
        evidence = after_look(evidence, seconds, changed=changed)

    assert unpack(pack(evidence)) == pytest.approx(evidence, abs=0.001)
    assert sum(chances(evidence, UNKNOWN)) == pytest.approx(1)
    assert unpack(b"") == NO_EVIDENCE


@each_row(
    "address, template",
    [
        ("http://a.example/news/2026/11/29/1.html?x=/y/", "/news/#/#/"),
        ("http://a.example/", "/"),
        ("http://a.example", "/"),
        ("/srv/files/b12/c.pdf", "/srv/files/b#/"),
    ],
)
def test_addresses_of_one_kind_have_one_template(address, template):
    assert template_of(address) == template


# --- Looks and plans -------------------------------------------------------------------------------


def test_the_price_is_the_freshness_that_one_more_look_buys():
    rate, interval, within, step = 1 / HOUR, 2 * HOUR, 600.0, 1e-7
    faster = 1 / (1 / interval + step)

    gain = fresh_share(rate=rate, interval=faster, within=within) - fresh_share(
        rate=rate, interval=interval, within=within
    )

    assert price_at(rate=rate, interval=interval, within=within) == pytest.approx(gain / step, rel=1e-3)


def test_the_best_interval_has_the_given_price():
    table, likely = looks(900.0, 30 * DAY), chances_of(1 / HOUR)
    rate = next(rate for rate, chance in zip(RATES, likely, strict=True) if chance)

    for price in (10.0, 500.0, 2000.0):
        interval = table.best_interval(likely, price)
        assert price_at(rate=rate, interval=interval, within=900.0) == pytest.approx(price, rel=0.15)


def test_a_page_that_changes_too_often_for_its_price_is_given_up():
    table = looks(0.0, 30 * DAY)
    price = 2 * HOUR

    assert table.best_interval(chances_of(1 / 60), price) == pytest.approx(30 * DAY)
    assert table.best_interval(chances_of(1 / DAY), price) < DAY


def test_a_goal_takes_the_fewest_looks_that_meet_it():
    demand = Demand(0.9, looks(900.0, 30 * DAY), [chances_of(1 / DAY)] * 10)

    (promise,) = plan([demand], allows=None)

    assert promise.fresh == pytest.approx(0.9, abs=0.01)
    assert promise.gets == promise.needs < 10 / 900


def test_an_ambitious_goal_is_cut_before_a_modest_goal():
    greedy = Demand(1.0, looks(60.0, 30 * DAY), [chances_of(1 / HOUR)] * 100)
    modest = Demand(0.5, looks(DAY, 30 * DAY), [chances_of(1 / DAY)] * 100)

    of_greedy, of_modest = plan([greedy, modest], allows=0.1)

    assert of_greedy.needs > 1
    assert of_greedy.gets + of_modest.gets <= 0.1001
    assert of_modest.gets == pytest.approx(of_modest.needs, rel=0.2)
    assert of_modest.fresh >= 0.5


def test_the_price_of_a_look_is_found_from_samples_of_the_hosts_lanes():
    always = NO_EVIDENCE
    for _ in range(20):
        always = after_look(always, HOUR, changed=True)
    seen = [Seen(0, f"http://a.example/news/{n}", always, HOUR) for n in range(30)]
    lane = LaneSample([GoalTerms(0.95, 900.0)], 30 * DAY, seen, weight=100.0)

    (priced,) = price_host([lane], allows=1.0)
    again = LanePlan.from_json(priced.as_json())

    (goal,) = again.goals
    assert goal.documents == 3000
    assert goal.needs > 1.0 >= goal.gets > 0.9
    assert goal.fresh < 0.95
    assert set(again.priors) == {"", "/news/"}
    assert again.interval(0, "http://a.example/news/new", NO_EVIDENCE, looks(900.0, 30 * DAY)) > 900


def test_a_host_with_unused_requests_looks_often_at_new_documents():
    seen = [Seen(0, f"http://a.example/{n}", NO_EVIDENCE, HOUR) for n in range(100)]
    table = looks(HOUR, 30 * DAY)

    def intervals(allows):
        (plan_of_lane,) = price_host([LaneSample([GoalTerms(0.5, HOUR)], 30 * DAY, seen)], allows=allows)
        return [plan_of_lane.interval(0, "/new", NO_EVIDENCE, table, since=since) for since in (0.0, HOUR, 100 * DAY)]

    assert intervals(1.0)[:2] == [HOUR, 4 * HOUR]
    assert intervals(1.0)[2] == intervals(None)[2] > DAY
    assert intervals(1e-4)[0] > DAY


def test_present_freshness_falls_with_the_age_of_the_last_look():
    likely = chances_of(1 / HOUR)

    assert fresh_now(likely, age=900, within=900) == 1
    assert 1 > fresh_now(likely, age=HOUR, within=900) > fresh_now(likely, age=DAY, within=900)


# --- Goals -----------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.text("ab/.,[]", min_size=1, max_size=9), st.integers(1, 100), st.integers(1, 10**7)), max_size=4
    )
)
def test_printed_goals_are_read_back_unchanged(given_goals):
    goals = [{"pattern": pattern, "percent": float(part), "within": float(s)} for pattern, part, s in given_goals]
    if not check_goals(goals):
        assert parse_goals(goals_in_words(goals)) == goals


def test_the_first_goal_that_matches_a_document_applies():
    goals = read_goals(
        [
            {"pattern": "/news/", "percent": 95.0, "within": 900.0},
            {"pattern": "/", "percent": 90.0, "within": 9000.0},
        ]
    )

    assert goals.number_of("http://a.example/news/1") == 0
    assert goals.number_of("http://a.example/about") == 1
    assert goals.number_of("x") is None
    assert read_goals([]) is None
