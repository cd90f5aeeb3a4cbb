"""Proves that `manage.py job` has the same effects as the buttons on the page of a job."""

import pytest
from django.core.management import CommandError, call_command

from jobs.lifecycle.job import TRANSITIONS, Phase
from jobs.lifecycle.table import Owner
from jobs.models import Job, JobEvent
from jobs.verbs import control
from tests.support.factories import make_job

# The command closes the database connection after it checks the tables.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def job():
    return make_job("manual")


def run_job(capsys, *arguments):
    call_command("job", *arguments)
    return capsys.readouterr().out.strip()


def test_a_job_shows_its_state(job, capsys):
    Job.objects.update(phase=Phase.READY_FOR_STARTUP, reason="its source does not answer")

    assert run_job(capsys, "manual") == "manual: Starting up (READYFORSTARTUP): its source does not answer"


def test_an_action_is_carried_out_and_recorded_under_the_users_name(job, capsys, monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "vera")

    assert run_job(capsys, "manual", "start-minimal") == "manual: Starting up (READYFORSTARTUPMINIMAL)"
    assert JobEvent.objects.get(kind="start_minimal").made_by == "vera"


def test_an_impossible_action_is_refused_with_the_possible_actions(job):
    with pytest.raises(CommandError, match="Possible now: start, start-minimal, reset-seeding, delete") as refused:
        call_command("job", "manual", "pause")

    assert refused.value.returncode == 1


def test_a_missing_job_and_an_unknown_action_are_refused(job):
    with pytest.raises(CommandError, match="No job has the name 'other'"):
        call_command("job", "other")
    with pytest.raises(CommandError, match="invalid choice"):
        call_command("job", "manual", "come-to-rest")


def test_the_command_has_exactly_the_actions_of_operators():
    assert list(control.VERBS) == [row.verb for row in TRANSITIONS.values() if row.owner == Owner.OPERATOR]
