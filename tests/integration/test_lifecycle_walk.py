"""Proves that the database makes or refuses each transition from each state of a job, and refuses invalid states."""

import dataclasses

import pytest
from django.db import IntegrityError, transaction

from jobs.lifecycle.job import SITUATIONS, TRANSITIONS, Guard, JobState, Pause, Phase, StopRequest, Window, situation_of
from jobs.models import Job, JobEvent
from jobs.state.transitions import TransitionRefused, make_transition
from jobs.verbs import control
from nodes.errors import Invalid, Unknown
from tests.support.cluster import NOON
from tests.support.factories import make_job
from tests.support.tables import each_row

ACTIVE = {"phase": Phase.ACTIVE}
# An example of a state of each situation.
IN = {
    "inactive": {"phase": Phase.INACTIVE},
    "waiting for approval": {"phase": Phase.INACTIVE, "guard": Guard.WAITING},
    "ready for startup": {"phase": Phase.READY_FOR_STARTUP},
    "starting up": {"phase": Phase.STARTING_UP},
    "running": ACTIVE,
    "resuming": ACTIVE | {"resuming": True},
    "waiting": ACTIVE | {"window": Window.WAITING},
    "outside its window": ACTIVE | {"window": Window.OUTSIDE},
    "pausing": ACTIVE | {"pause": Pause.PAUSING},
    "pausing and waiting": ACTIVE | {"pause": Pause.PAUSING, "window": Window.WAITING},
    "paused": ACTIVE | {"pause": Pause.PAUSED},
    "paused outside its window": ACTIVE | {"pause": Pause.PAUSED, "window": Window.OUTSIDE},
    "terminating": {"phase": Phase.SHUTTING_DOWN},
    "aborting": ACTIVE | {"stop_request": StopRequest.ABORT},
    "restarting": ACTIVE | {"stop_request": StopRequest.RESTART},
    "ready to notify": {"phase": Phase.READY_FOR_NOTIFY},
    "notifying": {"phase": Phase.NOTIFYING},
    "to be deleted": {"phase": Phase.READY_FOR_DELETE},
    "starting to delete": {"phase": Phase.DELETE_STARTING_UP},
    "deleting": {"phase": Phase.DELETING},
    "ready to notify of deletion": {"phase": Phase.READY_FOR_DELETE_NOTIFY},
    "notifying of deletion": {"phase": Phase.NOTIFYING_OF_DELETION},
}
# All transitions except "go", which a separate function makes.
MADE_BY_NAME = {name: row for name, row in TRANSITIONS.items() if name != "go"}


@pytest.fixture
def job(db):
    return make_job()


def put(job, **facts):
    plain = dataclasses.asdict(JobState())
    Job.objects.filter(pk=job.pk).update(**(plain | facts))


def test_the_tests_cover_every_situation_of_a_job():
    assert IN.keys() == SITUATIONS.keys()
    assert {name: situation_of(JobState(**facts)) for name, facts in IN.items()} == {name: name for name in IN}


@each_row("situation", IN)
def test_transitions_that_a_situation_does_not_allow_change_nothing(job, situation):
    put(job, **IN[situation])
    before, events = Job.objects.get(pk=job.pk).state, JobEvent.objects.count()

    for name, row in MADE_BY_NAME.items():
        if situation not in row.sources:
            with pytest.raises(TransitionRefused) as refused:
                make_transition(job.pk, name, made_by="a test", now=NOON)
            assert refused.value.job_id == job.pk
            assert all(allowed in str(refused.value) for allowed in refused.value.allowed)

    assert Job.objects.get(pk=job.pk).state == before
    assert JobEvent.objects.count() == events


@each_row("situation, name", [(situation, name) for name, row in MADE_BY_NAME.items() for situation in row.sources])
def test_a_transition_that_a_situation_allows_is_made_and_recorded(job, situation, name):
    row = TRANSITIONS[name]
    put(job, **IN[situation], **row.requires)
    before, events = Job.objects.get(pk=job.pk).state, JobEvent.objects.count()

    change = make_transition(job.pk, name, made_by="a test", now=NOON, reason="why not")

    stored = Job.objects.get(pk=job.pk)
    assert (change.before, change.after) == (before, stored.state)
    becomes = row.values_from(situation)
    assert {column: getattr(stored, column) for column in becomes} == becomes
    event = JobEvent.objects.first()
    assert (event.job_id, event.made_by, event.at) == (job.pk, "a test", NOON)
    assert "why not" in event.message
    assert JobEvent.objects.count() == events + 1


def test_a_missing_job_has_no_transitions(db):
    with pytest.raises(Unknown):
        make_transition(404, "start", made_by="a test", now=NOON)


@each_row(
    "facts",
    [
        {"phase": Phase.INACTIVE, "pause": Pause.PAUSED},
        {"phase": Phase.STARTING_UP, "pause": Pause.PAUSING},
        {"phase": Phase.SHUTTING_DOWN, "window": Window.OUTSIDE},
        {"phase": Phase.DELETING, "resuming": True},
        {"phase": Phase.INACTIVE, "stop_request": StopRequest.ABORT},
        {"phase": Phase.READY_FOR_DELETE, "stop_request": StopRequest.RESTART},
        {"phase": Phase.NOTIFYING, "stop_request": StopRequest.ABORT},
        {"phase": Phase.INACTIVE, "seeding": True},
        {"phase": Phase.ACTIVE, "guard": Guard.WAITING},
        {"phase": Phase.ACTIVE, "resuming": True, "pause": Pause.PAUSED},
        {"phase": Phase.ACTIVE, "resuming": True, "stop_request": StopRequest.ABORT},
        {"phase": Phase.ACTIVE, "pause": Pause.PAUSED, "window": Window.WAITING},
    ],
    ids=lambda facts: " ".join(map(str, facts.values())),
)
def test_the_database_refuses_invalid_states(job, facts):
    with pytest.raises(IntegrityError), transaction.atomic():
        put(job, **facts)


def test_a_job_without_a_seed_or_an_output_is_not_started(job):
    job.outputs.clear()
    with pytest.raises(Invalid, match="no output"):
        control.start(job.pk, made_by="a test", now=NOON)

    assert Job.objects.get(pk=job.pk).phase == Phase.INACTIVE


@each_row("verb", ["start", "pause", "resume", "abort", "restart", "delete"])
def test_two_equal_requests_make_one_transition(job, verb):
    where = {
        "start": "inactive",
        "pause": "running",
        "resume": "paused",
        "abort": "running",
        "restart": "paused",
        "delete": "inactive",
    }
    put(job, **IN[where[verb]])

    getattr(control, verb)(job.pk, made_by="first", now=NOON)
    with pytest.raises(TransitionRefused):
        getattr(control, verb)(job.pk, made_by="second", now=NOON)

    assert JobEvent.objects.filter(kind=verb).count() == 1
