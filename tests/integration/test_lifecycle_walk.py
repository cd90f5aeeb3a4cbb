"""Every pair of a job's state and a transition, made in the database; and tuples that the database refuses."""

import pytest
from django.db import IntegrityError, transaction

from jobs import control
from jobs.lifecycle.job import SITUATIONS, TRANSITIONS, JobState, Pause, Phase, StopRequest, Window, situation_of
from jobs.models import Job, JobEvent
from jobs.transitions import JobUnknown, TransitionRefused, make_transition
from tests.cluster import NOON
from tests.factories import make_job

# A state of each situation.
IN = {
    "inactive": {"phase": Phase.INACTIVE},
    "ready for startup": {"phase": Phase.READY_FOR_STARTUP},
    "starting up": {"phase": Phase.STARTING_UP},
    "running": {"phase": Phase.ACTIVE},
    "pausing": {"phase": Phase.ACTIVE, "pause": Pause.PAUSING},
    "paused": {"phase": Phase.ACTIVE, "pause": Pause.PAUSED},
    "terminating": {"phase": Phase.SHUTTING_DOWN},
    "aborting": {"phase": Phase.ACTIVE, "stop_request": StopRequest.ABORT},
    "to be deleted": {"phase": Phase.READY_FOR_DELETE},
    "deleting": {"phase": Phase.DELETING},
}


@pytest.fixture
def job(db):
    return make_job()


def put(job, **facts):
    plain = {"phase": Phase.INACTIVE, "pause": Pause.NO, "window": Window.INSIDE, "stop_request": StopRequest.NONE}
    Job.objects.filter(pk=job.pk).update(**(plain | facts))


def test_every_situation_is_walked():
    assert IN.keys() == SITUATIONS.keys()
    assert {name: situation_of(JobState(**facts)) for name, facts in IN.items()} == {name: name for name in IN}


@pytest.mark.parametrize("name", TRANSITIONS)
@pytest.mark.parametrize("situation", IN)
def test_a_transition_is_made_and_recorded_or_refused_and_nothing_is(job, situation, name):
    put(job, **IN[situation])
    before = Job.objects.get(pk=job.pk).state
    events = JobEvent.objects.count()
    row = TRANSITIONS[name]

    if situation in row.sources:
        change = make_transition(job.pk, name, made_by="a test", now=NOON, reason="why not")
        stored = Job.objects.get(pk=job.pk)
        assert (change.before, change.after) == (before, stored.state)
        assert {column: getattr(stored, column) for column in row.becomes} == row.becomes
        event = JobEvent.objects.first()
        assert (event.job_id, event.made_by, event.at) == (job.pk, "a test", NOON)
        assert "why not" in event.message
        assert JobEvent.objects.count() == events + 1
    else:
        with pytest.raises(TransitionRefused) as refused:
            make_transition(job.pk, name, made_by="a test", now=NOON)
        assert Job.objects.get(pk=job.pk).state == before
        assert JobEvent.objects.count() == events
        assert refused.value.job_id == job.pk
        assert all(allowed in str(refused.value) for allowed in refused.value.allowed)


def test_a_job_that_is_not_there_cannot_be_moved(db):
    with pytest.raises(JobUnknown):
        make_transition(404, "start", made_by="a test", now=NOON)


@pytest.mark.parametrize(
    "facts",
    [
        {"phase": Phase.INACTIVE, "pause": Pause.PAUSED},
        {"phase": Phase.STARTING_UP, "pause": Pause.PAUSING},
        {"phase": Phase.SHUTTING_DOWN, "window": Window.OUTSIDE},
        {"phase": Phase.DELETING, "resuming": True},
        {"phase": Phase.INACTIVE, "stop_request": StopRequest.ABORT},
        {"phase": Phase.READY_FOR_DELETE, "stop_request": StopRequest.RESTART},
        {"phase": Phase.NOTIFYING, "stop_request": StopRequest.ABORT},
    ],
    ids=lambda facts: " ".join(map(str, facts.values())),
)
def test_the_database_refuses_what_is_no_state(job, facts):
    with pytest.raises(IntegrityError), transaction.atomic():
        put(job, **facts)


def test_a_job_without_a_seed_or_an_output_is_not_started(job):
    job.outputs.clear()
    with pytest.raises(control.InvalidJob, match="no output"):
        control.start(job.pk, made_by="a test", now=NOON)

    assert Job.objects.get(pk=job.pk).phase == Phase.INACTIVE


@pytest.mark.parametrize("verb", ["start", "pause", "resume", "abort", "delete"])
def test_two_who_ask_for_the_same_get_one_transition(job, verb):
    where = {"start": "inactive", "pause": "running", "resume": "paused", "abort": "running", "delete": "inactive"}
    put(job, **IN[where[verb]])

    getattr(control, verb)(job.pk, made_by="first", now=NOON)
    with pytest.raises(TransitionRefused):
        getattr(control, verb)(job.pk, made_by="second", now=NOON)

    assert JobEvent.objects.filter(kind=verb).count() == 1
