"""Proves that verdicts of hosts and jobs use their latest requests, even if other hosts have far more requests."""

import datetime as dt

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jobs.models import Activity, Job, RepositoryConnection
from jobs.queries.hosts.latest_requests import read_latest_requests
from tests.support.cluster import NOON
from tests.support.factories import make_running_job
from tests.support.stepping import Manager

MINUTE = 60.0
TEN_MINUTES = 600.0


@pytest.fixture
def running(connection):
    running = make_running_job(Manager(connection).node, name="news")
    Job.objects.update(started_at=NOON - dt.timedelta(hours=1))
    return running


def request(running, host, code, *, ago):
    """Return a request of the job that began `ago` seconds before noon."""
    return Activity(
        started_at=NOON - dt.timedelta(seconds=ago),
        seconds=0.1,
        job=running.job,
        repository=running.job.repository,
        activity="fetch",
        entity=f"http://{host}/page",
        result_code=code,
    )


def spread(amount, *, over):
    """Return the ages of an `amount` of requests, spread evenly over this time (seconds)."""
    return [over * (number + 0.5) / amount for number in range(amount)]


def test_a_host_with_many_requests_does_not_hide_a_failing_host(running):
    Activity.objects.bulk_create(request(running, "fast.example", "200", ago=ago) for ago in spread(10_000, over=50))
    Activity.objects.bulk_create(request(running, "dead.example", "REFUSED", ago=ago) for ago in spread(10, over=50))

    latest = read_latest_requests(now=NOON)

    assert (latest.of("dead.example").failed, latest.of("dead.example").ended) == (10, 10)
    assert [host for host, _ in latest.failing_hosts] == ["dead.example"]


def test_a_job_is_judged_by_all_its_requests_of_the_minute(running):
    Activity.objects.bulk_create(request(running, "fast.example", "200", ago=ago) for ago in spread(1_000, over=50))
    Activity.objects.bulk_create(request(running, "dead.example", "REFUSED", ago=ago) for ago in spread(100, over=50))

    latest = read_latest_requests(now=NOON).of(running.job.pk)

    assert (latest.failed, latest.ended, latest.is_failing) == (100, 1_100, False)


def test_all_jobs_together_are_judged_by_requests_of_one_period(running):
    failing = make_running_job(running.manager, name="failing")
    Job.objects.update(started_at=NOON - dt.timedelta(hours=1))
    Activity.objects.bulk_create(request(running, "slow.example", "200", ago=ago) for ago in spread(100, over=500)[20:])
    Activity.objects.bulk_create(request(failing, "dead.example", "500", ago=ago) for ago in spread(50, over=50))

    latest = read_latest_requests(now=NOON).of_all([running.job.pk, failing.job.pk])

    assert (latest.failed, latest.ended, latest.is_failing) == (50, 50, True)


def test_the_start_of_failures_is_unknown_if_it_precedes_the_read_requests(running):
    Activity.objects.bulk_create(request(running, "dead.example", "REFUSED", ago=ago) for ago in spread(50, over=590))

    assert read_latest_requests(now=NOON).of("dead.example").failing_since is None


def test_failures_after_a_minute_without_failures_have_a_known_start(running):
    request(running, "dead.example", "200", ago=595).save()
    Activity.objects.bulk_create(request(running, "dead.example", "REFUSED", ago=ago) for ago in spread(50, over=500))

    assert read_latest_requests(now=NOON).of("dead.example").failing_since == NOON - dt.timedelta(seconds=495)


def test_requests_of_an_earlier_run_do_not_count_for_the_present_run(running):
    Activity.objects.bulk_create(request(running, "dead.example", "REFUSED", ago=ago) for ago in spread(50, over=50))

    Job.objects.update(started_at=NOON - dt.timedelta(seconds=10))
    assert read_latest_requests(now=NOON).of("dead.example").ended == 10
    Job.objects.update(phase="inactive")
    assert read_latest_requests(now=NOON).of("dead.example").ended == 0


def test_only_sources_whose_jobs_started_latest_are_read(running, monkeypatch):
    monkeypatch.setattr("jobs.queries.hosts.latest_requests._SOURCES", 2)
    jobs = {name: make_running_job(running.manager, name=name) for name in ("early", "late", "idle", "latest")}
    for hours, name in enumerate(("latest", "idle", "late", "early"), start=1):
        source = RepositoryConnection.objects.create(name=name, connector="web")
        Job.objects.filter(name=name).update(started_at=NOON - dt.timedelta(hours=hours), repository=source)
        jobs[name].job.refresh_from_db()
    Job.objects.filter(name="news").update(started_at=NOON - dt.timedelta(hours=5))
    for asked in (running, *(one for name, one in jobs.items() if name != "idle")):
        request(asked, f"{asked.job.name}.example", "200", ago=30).save()

    latest = read_latest_requests(now=NOON)

    assert [name for name, one in jobs.items() if latest.of(one.job.pk).ended] == ["late", "latest"]
    assert latest.of(running.job.pk).ended == 0


HISTORIES = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["200", "503"]), st.integers(1, 900)), max_size=60, unique=True
)


@example(history=[("a", "200", 1), ("a", "503", 1)], older=0, most=1)
@given(history=HISTORIES, older=st.integers(0, 40), most=st.integers(1, 60))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_counted_requests_are_the_newest_ones_without_a_gap(running, monkeypatch, history, older, most):
    monkeypatch.setattr("jobs.queries.hosts.latest_requests._ROWS", older)
    monkeypatch.setattr("jobs.queries.hosts.latest_requests._MOST_ROWS", most)
    Activity.objects.all().delete()
    Activity.objects.bulk_create(request(running, host, code, ago=ago) for host, code, ago in history)

    latest = read_latest_requests(now=NOON)

    for key, hosts in ((running.job.pk, "ab"), ("a", "a"), ("b", "b")):
        newest = sorted((ago, code) for host, code, ago in history if host in hosts and ago < TEN_MINUTES)
        found = latest.of(key)
        assert (found.ended, found.failed) in _amounts(newest, cut_anywhere=len(history) > most)
        of_the_minute = sum(ago < MINUTE for ago, _code in newest)
        if len(history) <= most:
            assert found.ended >= of_the_minute


def _amounts(newest, *, cut_anywhere):
    """
    Return the pairs (ended requests, failed requests) that a correct count may give.

    Requests of one moment have no order. A limit of rows may leave out any of them; a limit of time leaves out all.
    """
    amounts = set()
    for moment in [0, *sorted({ago for ago, _code in newest})]:
        before = [code for ago, code in newest if ago <= moment]
        here = [code for ago, code in newest if ago == moment]
        failed, failed_here = before.count("503"), here.count("503")
        amounts.add((len(before), failed))
        for left_out in range(1, len(here) if cut_anywhere else 0):
            least = max(0, left_out - (len(here) - failed_here))
            amounts |= {(len(before) - left_out, failed - n) for n in range(least, min(left_out, failed_here) + 1)}
    return amounts
