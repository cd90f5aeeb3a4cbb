"""Proves the page of a run, and the comparison of two runs of a job."""

import datetime as dt

import pytest

from jobs.models import ClusterMinute, DefinitionVersion, Outcome, Run
from jobs.queries.cluster.facts import as_text
from jobs.queries.jobs import run as run_queries
from jobs.state import journal
from nodes.models import SettingsVersion
from tests.integration.test_pages import count, page_client
from tests.integration.test_run_records import begin, end
from tests.support.api import client_of
from tests.support.cluster import NOON
from tests.support.factories import make_job
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

HOUR = dt.timedelta(hours=1)


def two_runs(job):
    """Let a job have two ended runs: the second has fewer documents and more failures."""
    count(begin(job, at=NOON + HOUR), 100)
    end(job, at=NOON + 2 * HOUR)
    count(job, -60)
    begin(job, at=NOON + 4 * HOUR)
    count(job, 40)
    count(job, 10, outcome=Outcome.FAILED, code="500")
    end(job, at=NOON + 5 * HOUR)
    return [run.pk for run in Run.objects.filter(job=job).order_by("run_no")]


def compared(*runs):
    return page_client("viewer").get("/runs/comparison/", {"earlier": runs[0], "later": runs[1]})


def test_the_page_of_a_run_has_its_result_its_counts_and_its_events_only():
    first, _second = two_runs(make_job("docs"))

    page = page_client("viewer").get(f"/runs/{first}/")

    assert (page.context["row"]["result"], page.context["row"]["by"]) == ("aborted", "ann")
    assert [(str(label), number) for label, number, _name in page.context["counts"]][:2] == [
        ("Processed", "100"),
        ("Indexed", "100"),
    ]
    assert [(row["message"], row["to"]) for row in page.context["events"]] == [
        ("Was started", "Ready for startup"),
        ("Prepares its run", "Starting up"),
        ("Is running", "Running"),
        ("Was asked to abort", "Aborting"),
        ("Ended early", "Ready to notify"),
    ]


def test_runs_are_linked_from_their_list_and_from_neighbouring_runs():
    first, second = two_runs(make_job("docs"))
    client = page_client("viewer")

    assert f'href="/runs/{second}/"' in client.get("/runs/").content.decode()
    assert f'href="/runs/{first}/"' in client.get(f"/runs/{second}/").content.decode()


def test_two_runs_are_compared_number_by_number_in_either_order():
    first, second = two_runs(make_job("docs"))

    rows = {row["label"]: row for row in compared(second, first).context["rows"]}

    assert (rows["Processed"]["earlier"], rows["Processed"]["later"]) == ("100", "50")
    assert (rows["Processed"]["change"], rows["Processed"]["share"]) == ("-50", "-50 %")
    assert (rows["Failed"]["change"], rows["Failed"]["share"]) == ("+10", "")
    assert rows["Seconds"]["change"] == "="


def test_a_comparison_names_the_changes_between_the_two_starts():
    job = make_job("docs")
    first, second = two_runs(job)
    for at, message in ((NOON + 3 * HOUR, "was changed: priority"), (NOON + 6 * HOUR, "was changed: hop limits")):
        journal.record(job, kind="changed", message=message, made_by="bob", now=at)
    for version, at in ((1, NOON), (2, NOON + 3 * HOUR), (3, NOON + 6 * HOUR)):
        SettingsVersion.objects.create(version=version, document={}, made_by="eve", at=at)

    context = compared(first, second).context

    assert [(row["message"], row["who"]) for row in context["changes"]] == [("Was changed: priority", "bob")]
    assert [(one["what"], one["made_by"]) for one in context["versions"]] == [("settings, version 2", "eve")]


def test_a_comparison_names_changed_policies_and_connections_of_the_job():
    job = make_job("docs")
    first, second = two_runs(job)
    subject = DefinitionVersion.Subject
    stored = (
        *((subject.POLICY, 7, "slow"), (subject.JOB, job.pk, "docs"), (subject.JOB, job.pk + 1, "other job")),
        *((subject.REPOSITORY, job.repository_id, "web"), (subject.OUTPUT, 0, "not of this job")),
    )
    for minute, (definition, object_id, name) in enumerate(stored):
        at = NOON + 3 * HOUR + dt.timedelta(minutes=minute)
        DefinitionVersion.objects.create(
            definition=definition, object_id=object_id, number=2, name=name, at=at, made_by="eve", document={}
        )

    page = compared(first, second)

    wanted = ["policy slow, version 2", "job docs, version 2", "repository web, version 2"]
    assert [one["what"] for one in page.context["versions"]] == wanted
    assert f'href="{page.context["versions"][0]["address"]}"' in page.content.decode()
    answer = client_of("operator").get(f"/api/v1/runs/comparison/?earlier={first}&later={second}").json()
    assert [(one["definition"], one["name"], one["version"]) for one in answer["definitions"]] == [
        ("policy", "slow", 2),
        ("job", "docs", 2),
        ("repository", "web", 2),
    ]


def keep_minute(at, **workers):
    """Store the state of the cluster at a moment: a manager and these workers."""
    nodes = {"m": {"name": "manager-1", "kind": "manager", "status": "running", "machine": "", "tags": []}}
    nodes |= {key: {**nodes["m"], "name": name, "kind": "worker"} for key, name in workers.items()}
    ClusterMinute.objects.create(at=at, is_whole=True, facts=as_text({"nodes": nodes}))


def test_a_comparison_names_the_nodes_of_only_one_of_the_runs():
    first, second = two_runs(make_job("docs"))
    keep_minute(NOON + 2 * HOUR, a="worker-1", b="worker-2")
    keep_minute(NOON + 5 * HOUR, a="worker-1", c="worker-3")

    page = compared(first, second)

    assert page.context["nodes"] == {"earlier": "worker-2", "later": "worker-3"}
    (workers,) = (row for row in page.context["rows"] if row["label"] == "Workers")
    assert (workers["earlier"], workers["later"], workers["change"]) == ("2", "2", "=")
    answer = client_of("operator").get(f"/api/v1/runs/comparison/?earlier={first}&later={second}").json()
    assert answer["later_nodes"] == {"managers": ["manager-1"], "workers": ["worker-1", "worker-3"]}


def test_a_comparison_says_that_the_nodes_of_a_run_are_not_known():
    first, second = two_runs(make_job("docs"))
    keep_minute(NOON + 2 * HOUR, a="worker-1")

    page = compared(first, second)

    assert page.context["nodes"] is None
    assert "The nodes of one of the runs are not known" in page.content.decode()


def test_a_comparison_says_that_older_changes_are_not_shown(monkeypatch):
    monkeypatch.setattr(run_queries, "EXAMINED", 3)
    first, second = two_runs(make_job("docs"))

    assert "Changes before the newest 500 events" in compared(first, second).content.decode()


@each_row(
    ("query", "says"),
    [
        ("", "Choose two runs of the same job"),
        ("earlier=x&later=1", "Choose two runs of the same job"),
        ("earlier={first}&later={first}", "cannot be compared with itself"),
        ("earlier={first}&later={other}", "These are runs of two jobs"),
    ],
)
def test_a_comparison_needs_two_runs_of_one_job(query, says):
    first, _second = two_runs(make_job("docs"))
    other, _next = two_runs(make_job("shop"))

    page = page_client("viewer").get(f"/runs/comparison/?{query.format(first=first, other=other)}")

    assert page.status_code == 400
    assert says in page.content.decode()


def test_an_unknown_run_is_not_found():
    client = page_client("viewer")

    assert client.get("/runs/404/").status_code == 404
    assert client.get("/runs/comparison/?earlier=404&later=405").status_code == 404


def test_the_api_has_a_run_and_the_comparison_of_two():
    job = make_job("docs")
    first, second = two_runs(job)
    journal.record(job, kind="changed", message="was changed: priority", made_by="bob", now=NOON + 3 * HOUR)
    client = client_of("viewer")

    run = client.get(f"/api/v1/runs/{first}/").json()
    comparison = client.get(f"/api/v1/runs/comparison/?earlier={first}&later={second}").json()

    assert (run["indexed"], run["run_end"]) == (100, "aborted")
    assert (comparison["earlier"]["indexed"], comparison["later"]["failed"]) == (100, 10)
    assert [change["message"] for change in comparison["changes"]] == ["was changed: priority"]
    assert comparison["is_complete"]


def test_the_api_refuses_a_comparison_of_one_run_with_itself():
    first, _second = two_runs(make_job("docs"))
    client = client_of("viewer")

    assert client.get(f"/api/v1/runs/comparison/?earlier={first}&later={first}").status_code == 400
    assert client.get("/api/v1/runs/comparison/").status_code == 400
    assert client.get(f"/api/v1/runs/comparison/?earlier={first}&later=404").status_code == 404
