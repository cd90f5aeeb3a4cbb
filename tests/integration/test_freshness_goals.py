"""Proves that freshness goals are set by the API and the form, applied by flushes, and measured by the main manager."""

import datetime as dt
import io
import json
import uuid

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F
from django.test import Client

from crawlctl.access.roles import ADMINISTRATOR, VIEWER
from jobs.attention.freshness import goals_that_cannot_be_met
from jobs.connectors.repository.base import Ending
from jobs.connectors.repository.freshness_goals import read_goals
from jobs.duties.freshness import needs_of_policies, price_looks
from jobs.freshness.rates import NO_EVIDENCE, after_look, pack, unpack
from jobs.loops.worker.outputs import JobOutputs
from jobs.models import (
    ChangeRate,
    GoalTotal,
    Job,
    LanePlan,
    OutputConnection,
    QueueItem,
    RepositoryConnection,
    ThrottlePolicy,
)
from jobs.queue.flushing import freshness
from jobs.queue.flushing.recrawl import Intervals
from jobs.queue.removing.drop import drop_unclaimed
from jobs.queue.sql.rows import named_rows
from tests.integration.test_queue_flush import OneWorker
from tests.support.api import assert_problem, client_of, make_user
from tests.support.cluster import NOON, seconds
from tests.support.factories import facts_of, hash_of, make_documents, make_lane, make_result
from tests.support.stepping import Main
from tests.support.tables import each_row

JOBS = "/api/v1/jobs/"
FORM = "/admin/jobs/job/add/"
GOALS = [
    {"pattern": "page", "percent": 95.0, "within": 900.0},
    {"pattern": "other", "percent": 50.0, "within": 86400.0},
]
TEXT = "95 % of page within 15 min\n50 % of other within 1 d"
HOUR = seconds(3600)
CONTINUOUS = {"kind": "continuous"}


@pytest.fixture
def administrator(db):
    return client_of(ADMINISTRATOR)


@pytest.fixture
def wanted(db):
    return {
        "name": "docs",
        "repository": RepositoryConnection.objects.create(name="the web").pk,
        "outputs": [OutputConnection.objects.create(name="index", connector="search").pk],
        "seeds": [{"urls": ["http://docs.test/"]}],
        **CONTINUOUS,
    }


@pytest.fixture
def crawl(connection):
    needs_of_policies.clear()
    return FreshCrawl(connection)


class FreshCrawl(OneWorker):
    """A running continuous job with goals, one lane, and the main manager."""

    def __init__(self, connection):
        super().__init__(connection)
        ThrottlePolicy.objects.update(min_gap=1.0)
        Job.objects.update(freshness_goals=GOALS, kind="continuous", started_at=NOON)
        self.main = Main(connection)

    def policy_in_total(self, *, starts):
        """Limit all hosts of the policy together to this number of requests per minute. Return the policy."""
        ThrottlePolicy.objects.update(total_starts=starts, total_period="minute", version=F("version") + 1)
        return ThrottlePolicy.objects.get()

    def look(self, claimed, *, now, ending=Ending.INDEXED, goals=GOALS):
        intervals = Intervals(recrawl_after=HOUR)
        return self.flush(
            claimed,
            facts={"goals": read_goals(goals), "intervals": intervals, "specification_version": 1},
            now=now,
            ending=ending,
        )

    def price(self, *, now):
        self.main.now = now
        LanePlan.objects.update(due_at=NOON - HOUR)
        return self.main.step(price_looks)

    def fill(self, documents, *, evidence, looked_at, name="page"):
        """Create ended documents of the lane with this evidence. The name of each is `name` and a number."""
        names = [f"{name}{number}" for number in range(documents)]
        make_documents(self.lane, names, stage=2, indexed_before=True)
        ChangeRate.objects.bulk_create(
            ChangeRate(lane=self.lane, hash=hash_of(name), looked_at=looked_at, evidence=pack(evidence))
            for name in names
        )
        LanePlan.objects.get_or_create(
            lane=self.lane, defaults={"job": self.job, "since": looked_at, "due_at": looked_at}
        )


def busy():
    """Return the evidence of a document that changes about once in a quarter of an hour."""
    evidence = NO_EVIDENCE
    for number in range(40):
        evidence = after_look(evidence, 900, changed=number % 3 < 2)
    return evidence


# --- Set -----------------------------------------------------------------------------------------


def test_the_api_stores_goals_and_running_workers_read_them_again(administrator, wanted):
    made = administrator.post(JOBS, {**wanted, "freshness_goals": GOALS}).json()
    address = f"{JOBS}{made['id']}/"
    version = Job.objects.get().revision
    Job.objects.update(phase="active", run_no=1)

    assert administrator.get(address).json()["freshness_goals"] == GOALS
    administrator.patch(address, {"freshness_goals": GOALS})
    assert Job.objects.get().revision == version
    assert administrator.patch(address, {"freshness_goals": GOALS[1:]}).status_code == 200
    assert (Job.objects.get().revision, Job.objects.get().specification_version) == (version + 1, 1)


@each_row(
    "goals, field",
    [
        ("none", "freshness_goals"),
        ([1], "freshness_goals.0"),
        ([{}], "freshness_goals.0.pattern"),
        ([{**GOALS[0], "pattern": "("}], "freshness_goals.0.pattern"),
        ([{**GOALS[0], "percent": 0}], "freshness_goals.0.percent"),
        ([{**GOALS[0], "percent": 101}], "freshness_goals.0.percent"),
        ([GOALS[0], {**GOALS[0], "within": 0}], "freshness_goals.1.within"),
        ([{**GOALS[0], "often": True}], "freshness_goals.0.often"),
        (GOALS[:1] * 21, "freshness_goals"),
    ],
)
def test_invalid_freshness_goals_are_refused_at_their_field(administrator, wanted, goals, field):
    answer = administrator.post(JOBS, {**wanted, "freshness_goals": goals})

    assert_problem(answer, 400, "invalid")
    assert any(name.startswith(field) for name in answer.json()["fields"]), answer.json()
    assert not Job.objects.exists()


def test_only_a_continuous_job_has_goals(administrator, wanted):
    answer = administrator.post(JOBS, {**wanted, "kind": "once", "freshness_goals": GOALS})

    assert_problem(answer, 400, "invalid", fields=["freshness_goals"])


def test_the_form_of_a_job_stores_and_shows_goals_as_lines(wanted):
    browser = Client()
    browser.force_login(make_user(ADMINISTRATOR, name="vera"))
    form = {
        "name": "docs",
        "repository": wanted["repository"],
        "built_for": "web",
        "outputs": wanted["outputs"],
        "priority": 5,
        "kind": "continuous",
        "start_method": "manual",
        "hop_mode": "accurate",
        "guard_documents": 20,
        "seeds-TOTAL_FORMS": 1,
        "seeds-INITIAL_FORMS": 0,
        "seeds-0-urls": "http://docs.test/",
    }

    refused = browser.post(FORM, {**form, "freshness_goals": "95 % of page"}).context["adminform"].form
    answer = browser.post(FORM, {**form, "freshness_goals": TEXT})

    assert "Line 1 is invalid" in str(refused.errors["freshness_goals"])
    assert answer.status_code == 302, answer.context["adminform"].form.errors
    job = Job.objects.get()
    assert job.freshness_goals == GOALS
    change = f"/admin/jobs/job/{job.pk}/change/"
    assert browser.get(change).context["adminform"].form["freshness_goals"].value() == TEXT


# --- Applied -------------------------------------------------------------------------------------


def test_looks_are_recorded_as_evidence_and_the_plan_sets_the_next_look(crawl):
    make_documents(crawl.lane, ["page", "unnamed"])
    claims = crawl.claim()
    crawl.look(claims["page"], now=NOON)
    crawl.look(claims["unnamed"], now=NOON)

    rate = ChangeRate.objects.get()
    assert (rate.hash, rate.looked_at, unpack(rate.evidence)) == (hash_of("page"), NOON, NO_EVIDENCE)
    items = {item.identifier.rpartition("/")[2]: item for item in QueueItem.objects.all()}
    assert items["unnamed"].check_time == NOON + HOUR
    # No change rate is known yet, so the next look comes after the time of the goal.
    assert items["page"].check_time == NOON + seconds(900)
    assert LanePlan.objects.get().lane_id == crawl.lane.pk

    crawl.price(now=NOON)
    later = NOON + dt.timedelta(days=1)
    crawl.look(crawl.claim(now=later + HOUR).get("page") or crawl.claim(now=later + HOUR)["page"], now=later)

    rate = ChangeRate.objects.get()
    assert unpack(rate.evidence) == pytest.approx(after_look(NO_EVIDENCE, 86_400, changed=True), abs=0.01)
    wait = QueueItem.objects.get(hash=hash_of("page")).check_time - later
    assert seconds(900) <= wait < dt.timedelta(days=1)


def test_a_look_under_a_new_configuration_is_no_evidence_of_a_change(crawl):
    make_documents(crawl.lane, ["page"], version="0:old")
    crawl.fill(0, evidence=NO_EVIDENCE, looked_at=NOON)
    ChangeRate.objects.create(lane=crawl.lane, hash=hash_of("page"), looked_at=NOON - HOUR, evidence=pack(NO_EVIDENCE))

    crawl.look(crawl.claim()["page"], now=NOON)

    rate = ChangeRate.objects.get()
    assert (unpack(rate.evidence), rate.looked_at) == (NO_EVIDENCE, NOON)


def test_a_flush_without_goals_runs_no_statement_for_them(crawl):
    make_documents(crawl.lane, ["page"])
    claimed = crawl.claim()["page"]

    # Without a cursor, any statement would fail.
    nothing = freshness.look(None, [make_result(claimed, facts_of(crawl.job), lanes=[crawl.lane])], {}, now=NOON)
    nothing.write(None, now=NOON)
    crawl.look(claimed, now=NOON, goals=[])

    assert nothing.waits == {}

    assert not ChangeRate.objects.exists()
    assert not LanePlan.objects.exists()
    assert QueueItem.objects.get().check_time == NOON + HOUR


# --- Measured ------------------------------------------------------------------------------------


def test_a_goal_that_a_host_is_too_slow_for_is_shown_with_both_rates(crawl, administrator):
    crawl.fill(3000, evidence=busy(), looked_at=NOON - HOUR)
    crawl.fill(20, evidence=NO_EVIDENCE, looked_at=NOON - seconds(60), name="other")

    assert crawl.price(now=NOON) == 1

    found = administrator.get(f"{JOBS}{crawl.job.pk}/freshness/").json()
    busy_goal, calm_goal = found["goals"]
    assert busy_goal["documents"] == pytest.approx(3000, rel=0.4)
    assert busy_goal["achieved"] < 0.5
    assert busy_goal["is_met"] is False
    assert calm_goal["within"] == 86400.0
    (slow,) = found["slow_hosts"]
    assert slow["name"] == crawl.lane.bin.name
    assert slow["needs"] > slow["allows"] > 0

    shown = client_of(VIEWER).get(f"/jobs/{crawl.job.pk}/")
    assert shown.status_code == 200
    page = Client()
    page.force_login(make_user(VIEWER, name="vic"))
    text = page.get(f"/jobs/{crawl.job.pk}/").content.decode()
    assert "cannot be met" in text
    assert "the host allows" in text
    output = io.StringIO()
    call_command("freshness", crawl.job.name, stdout=output)
    assert "95 % within 15 min: cannot be met" in output.getvalue()
    assert "the goals need" in output.getvalue()
    as_json = io.StringIO()
    call_command("freshness", crawl.job.name, "--json", stdout=as_json)
    assert len(json.loads(as_json.getvalue())["goals"]) == 2


def test_goals_that_cannot_be_met_need_attention_while_the_job_runs(crawl):
    crawl.fill(3000, evidence=busy(), looked_at=NOON - HOUR)
    crawl.price(now=NOON)

    (line,) = goals_that_cannot_be_met(NOON)

    assert line.sentence.startswith("Freshness goals need ")
    assert f"at {crawl.lane.bin.name}, which allows 1.0." in line.sentence
    assert (line.kind, line.link, line.since) == ("host_too_slow", f"/jobs/{crawl.job.pk}/", NOON)
    Job.objects.update(phase="inactive")
    assert goals_that_cannot_be_met(NOON) == []


def test_documents_without_a_goal_use_a_part_of_the_hosts_requests(crawl):
    crawl.fill(3000, evidence=busy(), looked_at=NOON - HOUR)
    names = [f"unnamed{number}" for number in range(30)]
    make_documents(crawl.lane, names, stage=0, fetched_at=NOON - seconds(30), check_time=NOON + seconds(30))

    crawl.price(now=NOON)

    plan = LanePlan.objects.get()
    assert plan.host_others == pytest.approx(0.5)
    assert plan.allows == pytest.approx(0.5)
    assert plan.lacks == pytest.approx(plan.host_needs - 0.5)


def test_hosts_share_a_limit_by_their_needs(crawl):
    crawl.policy_in_total(starts=12)
    crawl.fill(3000, evidence=busy(), looked_at=NOON - HOUR)
    other = make_lane(crawl.lane.seed, "other.test")
    crawl.price(now=NOON)
    needs = LanePlan.objects.get().host_needs
    LanePlan.objects.create(
        lane=other, job=crawl.job, since=NOON, priced_at=NOON, due_at=NOON + HOUR, host_needs=needs * 3
    )

    needs_of_policies.clear()
    crawl.price(now=NOON)

    plan = LanePlan.objects.get(lane=crawl.lane)
    assert plan.allows == pytest.approx(0.05, rel=0.2)
    assert plan.lacks == pytest.approx(plan.host_needs - plan.allows)


def test_the_totals_of_a_goal_follow_the_plans_of_its_lanes(crawl):
    crawl.fill(30, evidence=busy(), looked_at=NOON - HOUR)
    crawl.price(now=NOON)
    crawl.price(now=NOON + seconds(60))

    total = GoalTotal.objects.get(number=0)
    assert total.documents == pytest.approx(30)

    LanePlan.objects.update(lane=10**9)
    crawl.price(now=NOON + seconds(120))
    assert GoalTotal.objects.get(number=0).documents == pytest.approx(0)
    assert not LanePlan.objects.exists()


def test_goals_that_change_are_measured_again_and_removed_goals_leave_nothing(crawl):
    crawl.fill(30, evidence=busy(), looked_at=NOON - HOUR)
    crawl.price(now=NOON)
    Job.objects.update(freshness_goals=GOALS[:1])
    crawl.price(now=NOON)

    assert GoalTotal.objects.count() == 1

    Job.objects.update(freshness_goals=[])
    crawl.price(now=NOON)
    assert not LanePlan.objects.exists()
    assert not ChangeRate.objects.exists()


def test_removed_documents_are_not_part_of_a_sample(crawl):
    crawl.fill(10, evidence=busy(), looked_at=NOON - HOUR)
    ChangeRate.objects.create(lane=crawl.lane, hash=uuid.uuid4(), looked_at=NOON, evidence=pack(NO_EVIDENCE))

    crawl.price(now=NOON)

    assert GoalTotal.objects.get(number=0).documents == pytest.approx(10)
    assert ChangeRate.objects.count() == 10


def test_the_rates_of_a_lane_that_moved_away_are_forgotten(crawl):
    crawl.fill(1000, evidence=busy(), looked_at=NOON - HOUR)
    QueueItem.objects.exclude(hash=hash_of("page1")).delete()

    crawl.price(now=NOON)

    assert [rate.hash for rate in ChangeRate.objects.all()] == [hash_of("page1")]


def test_the_command_says_that_a_job_has_no_freshness_goals(crawl):
    Job.objects.update(freshness_goals=[])
    output = io.StringIO()

    call_command("freshness", crawl.job.name, stdout=output)

    assert "has no freshness goals" in output.getvalue()
    with pytest.raises(CommandError, match="No job has the name 'x'") as refused:
        call_command("freshness", "x")
    assert refused.value.returncode == 2


def test_a_dropped_document_leaves_no_rate(crawl):
    crawl.fill(2, evidence=busy(), looked_at=NOON - HOUR)

    with crawl.connection.transaction(), named_rows(crawl.connection) as cursor:
        dropped = drop_unclaimed(
            cursor,
            hashes=[hash_of("page0")],
            job=facts_of(crawl.job),
            carries=False,
            outputs=JobOutputs(),
            keeps_history=False,
            now=NOON,
        )

    assert dropped.dropped == 1
    assert [rate.hash for rate in ChangeRate.objects.all()] == [hash_of("page1")]
