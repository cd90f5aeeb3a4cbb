"""Proves that the page of a job and the API forecast the end of a run, and the effect of more workers."""

import datetime as dt

import pytest

from crawlctl.access.roles import OPERATOR, VIEWER
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Kind
from jobs.models import Bin, Job, Outcome, Progress
from jobs.verbs.hosts import stop
from nodes.database.clock import read_clock
from tests.integration.test_pages import page_client
from tests.support.api import assert_problem, client_of
from tests.support.cluster import register_node
from tests.support.factories import count_folded, make_documents, make_lane, make_policy, make_running_job
from tests.support.stepping import Main


@pytest.fixture
def job(connection):
    """Return a running job with 600 waiting documents at a host of one request a second, and ten minutes of progress."""
    main = Main(connection)
    register_node(connection, "worker", name="worker-1")
    running = make_running_job(main.node, policy=make_policy("gentle", min_gap=1.0))
    lane = make_lane(running.seed, "a.test")
    make_documents(lane, 10)
    now = read_clock()
    Job.objects.filter(pk=running.job.pk).update(started_at=now - dt.timedelta(minutes=11))
    facts = {"job_id": running.job.pk, "run_no": running.job.run_no, "measure": "stage", "code": ""}
    count_folded(lane_id=lane.pk, stage=Stage.PENDING, outcome=0, amount=600, **facts)
    minute = now.replace(second=0, microsecond=0)
    indexed = 600 + now.second
    count_folded(lane_id=lane.pk, stage=Stage.DONE, outcome=Outcome.INDEXED, amount=indexed, **facts)
    for ago in range(1, 11):
        ended = 600 - 60 * (ago - 1)
        Progress.objects.create(
            job_id=running.job.pk, at=minute - dt.timedelta(minutes=ago), step=60, documents=60,
            waiting=600 + indexed - ended, active=0, indexed=ended, unchanged=0, failed=0, excluded=0,
        )  # fmt: skip
    return running.job


@pytest.fixture
def forecast(job):
    """Return a function that reads the forecast of the job as a viewer."""
    viewer = client_of(VIEWER)
    return lambda **query: _read(viewer, job, query)


def _read(viewer, job, query):
    answer = viewer.get(f"/api/v1/jobs/{job.pk}/forecast/", query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def minutes_until(moment):
    return (dt.datetime.fromisoformat(moment) - read_clock()).total_seconds() / 60


def test_the_forecast_of_the_end_of_a_run_has_a_band(forecast):
    found = forecast()

    assert minutes_until(found["likely"]) == pytest.approx(10, abs=1)
    assert found["soonest"] < found["likely"] < found["latest"]
    assert found["found"] == 0


def test_only_a_higher_rate_improves_the_forecast_for_a_slow_host(forecast):
    found = forecast()

    assert (found["hosts_are_the_limit"], found["more_workers_are_a_gain"]) == (True, False)
    assert minutes_until(forecast(workers=4)["likely"]) == pytest.approx(10, abs=1)
    assert minutes_until(forecast(rate=2)["likely"]) == pytest.approx(5, abs=1)


def test_the_page_of_a_job_shows_the_forecast_of_its_end(job):
    page = client_of(VIEWER).get(f"/jobs/{job.pk}/").content.decode()

    assert "Ends at about" in page
    assert "Twice as many workers would not end the run sooner, because the hosts are the limit." in page


def test_a_continuous_job_has_no_forecast(job, forecast):
    Job.objects.filter(pk=job.pk).update(kind=Kind.CONTINUOUS)

    assert set(forecast().values()) == {None}


def test_a_job_that_is_still_starting_has_no_forecast(job, forecast):
    Job.objects.filter(pk=job.pk).update(started_at=None)

    assert set(forecast().values()) == {None}
    assert client_of(OPERATOR).get(f"/jobs/{job.pk}/").status_code == 200


@pytest.mark.parametrize(
    ("query", "field"),
    [({"workers": 0}, "workers"), ({"rate": "fast"}, "rate"), ({"opens": "22:00"}, "closes"), ({"speed": 1}, "speed")],
)
def test_an_invalid_assumed_change_is_refused_at_its_field(job, query, field):
    answer = client_of(VIEWER).get(f"/api/v1/jobs/{job.pk}/forecast/", query)

    assert_problem(answer, 400, "invalid", fields=[field])


def test_a_closed_host_with_documents_is_named_instead_of_a_forecast(job):
    host = Bin.objects.get(name="a.test")
    stop(host.pk, reason="too slow", made_by="ann", now=read_clock())

    screen = page_client(VIEWER).get(f"/jobs/{job.pk}/").context["screen"]

    assert screen["forecast"] == "No end is forecast: documents wait for a.test, which gets no requests now."
