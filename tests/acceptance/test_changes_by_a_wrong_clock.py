"""Proves that the database's clock decides when a job is due, even if the machine that edits the job is hours off."""

import datetime as dt
import json
import urllib.request

import pytest

from jobs.verbs import control
from tests.support.api import make_job, token_client_of
from tests.support.factories import make_policy
from tests.support.processes import QUICK_HEARTBEATS, skewed_by, wait_for

WRONG_BY = pytest.mark.parametrize("hours", [-7, 3])
MINUTE = dt.timedelta(minutes=1)
NIGHTLY = {"hours": [2], "duration": 3 * 3600, "time_zone": "UTC"}


@pytest.fixture
def job(cluster):
    return make_job(policy=make_policy("usual"))


def is_now(cluster, moment):
    return abs(cluster.database.value("SELECT clock_timestamp()") - moment) < MINUTE


def answers(url):
    try:
        with urllib.request.urlopen(f"{url}/login/", timeout=30):
            return True
    except OSError:
        return False


@WRONG_BY
def test_a_new_schedule_starts_no_past_window_and_skips_no_future_window(cluster, machine, job, hours):
    manager = machine.start("runmanager", "--http", "127.0.0.1:0", **QUICK_HEARTBEATS, **skewed_by(hours))
    url = wait_for(
        lambda: manager.has_ended or manager.out.strip(), saying="the manager prints the address of its pages"
    )
    wait_for(lambda: answers(url), saying="the manager serves its pages")
    wanted = {"start_method": "window_begin", "windows": [NIGHTLY]}
    token = token_client_of("administrator")._credentials["HTTP_AUTHORIZATION"]
    request = urllib.request.Request(
        f"{url}/api/v1/jobs/{job.pk}/",
        data=json.dumps(wanted).encode(),
        headers={"Authorization": token, "Content-Type": "application/json"},
        method="PATCH",
    )

    with urllib.request.urlopen(request, timeout=30) as answer:
        assert json.load(answer)["start_method"] == "window_begin"

    job.refresh_from_db()
    assert is_now(cluster, job.schedule_checked_at)


@WRONG_BY
@pytest.mark.parametrize("verb", ["start", "abort"])
def test_a_command_on_a_machine_with_a_wrong_clock_acts_at_database_time(cluster, machine, job, hours, verb):
    if verb == "abort":
        control.start(job.pk, made_by="a test", now=job.schedule_checked_at)
    assert machine.start("job", job.name, verb, **skewed_by(hours)).wait() == 0

    job.refresh_from_db()
    assert is_now(cluster, job.started_at if verb == "start" else job.schedule_checked_at)
    assert is_now(cluster, cluster.database.value("SELECT max(at) FROM jobs_jobevent"))
