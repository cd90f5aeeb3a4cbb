"""
Compares the lifecycles with lists written by hand: the changes that each state allows, and the name of each state.
"""

import itertools
from dataclasses import replace

import pytest

from jobs.lifecycle.document import CLAIMED, Stage, manifoldcf_name
from jobs.lifecycle.document import TRANSITIONS as DOCUMENT_TRANSITIONS
from jobs.lifecycle.job import (
    SITUATIONS,
    TRANSITIONS,
    Guard,
    JobState,
    Pause,
    Phase,
    Scan,
    StopRequest,
    Window,
    allowed_transitions,
    is_possible,
    situation_of,
    states_by_name,
)
from jobs.lifecycle.job import manifoldcf_name as name_of_job
from jobs.lifecycle.table import Owner, Transition, by_name
from tests.support.tables import each_row

ACTIVE, ABORT = Phase.ACTIVE, StopRequest.ABORT

# --- Jobs: every pair of a state and a change ----------------------------------------------------

RUN, OUTSIDE, WAITING = (
    {"pause", "abort", "restart", "restart minimal", "reset seeding"},
    Window.OUTSIDE,
    Window.WAITING,
)
REST = {"resume", "abort", "restart", "restart minimal", "reset seeding"}
BEGIN = {"abort", "restart", "restart minimal"}
PAUSING, PAUSED, RESTART = Pause.PAUSING, Pause.PAUSED, StopRequest.RESTART

# Each state with the transitions of operators, and with those of the main manager, owners and workers. The list was
# written by hand from ManifoldCF's rules, with three intended differences: a resuming job can be stopped, a pausing job
# can be resumed, and the notification of an end can be skipped.
POSSIBLE = {
    "inactive": (JobState(), {"start", "start minimal", "reset seeding", "delete"}, {"begin window", "follow"}),
    "waiting for approval": (
        JobState(guard=Guard.WAITING),
        {"start", "start minimal", "reset seeding", "delete", "allow removals", "refuse removals"},
        {"begin window", "follow"},
    ),
    "asked to start": (JobState(Phase.READY_FOR_STARTUP), BEGIN, {"prepare", "lose connector"}),
    "asked to start without its connector": (
        JobState(Phase.READY_FOR_STARTUP, connectors_ready=False),
        BEGIN,
        {"prepare", "find connector"},
    ),
    "starting": (JobState(Phase.STARTING_UP), BEGIN, {"activate", "postpone", "give up", "lose connector"}),
    "running": (
        JobState(ACTIVE),
        RUN,
        {
            "shut down",
            "hold removals",
            "end at its limit",
            "interrupt",
            "wait",
            "begin reseeding",
            "fail",
            "lose connector",
        },
    ),
    "running again after a clean-up that was allowed": (
        JobState(ACTIVE, guard=Guard.ALLOWED),
        RUN,
        {"shut down", "end at its limit", "interrupt", "wait", "begin reseeding", "fail", "lose connector"},
    ),
    "running and seeding": (
        JobState(ACTIVE, seeding=True),
        RUN,
        {"interrupt", "wait", "end reseeding", "fail", "lose connector"},
    ),
    "running without its connector": (
        JobState(ACTIVE, connectors_ready=False),
        RUN,
        {
            "shut down",
            "hold removals",
            "end at its limit",
            "interrupt",
            "wait",
            "begin reseeding",
            "fail",
            "find connector",
        },
    ),
    "resuming": (JobState(ACTIVE, resuming=True), RUN, {"continue", "interrupt", "wait", "fail", "lose connector"}),
    "resuming and seeding": (
        JobState(ACTIVE, resuming=True, seeding=True),
        RUN,
        {"continue", "interrupt", "wait", "end reseeding", "fail", "lose connector"},
    ),
    "pausing": (
        JobState(ACTIVE, pause=PAUSING),
        REST,
        {"halt", "interrupt", "wait", "fail", "lose connector"},
    ),
    "paused": (JobState(ACTIVE, pause=PAUSED), REST, {"wait", "fail", "lose connector"}),
    "paused and seeding": (
        JobState(ACTIVE, pause=PAUSED, seeding=True),
        REST,
        {"wait", "end reseeding", "fail", "lose connector"},
    ),
    "its window is over": (
        JobState(ACTIVE, window=WAITING),
        RUN,
        {"halt", "unwait", "interrupt", "fail", "lose connector"},
    ),
    "waiting for its window": (
        JobState(ACTIVE, window=OUTSIDE),
        RUN,
        {"unwait", "shut down", "hold removals", "end at its limit", "interrupt", "fail", "lose connector"},
    ),
    "pausing when its window is over": (
        JobState(ACTIVE, pause=PAUSING, window=WAITING),
        REST,
        {"halt", "unwait", "interrupt", "fail", "lose connector"},
    ),
    "paused outside its window": (
        JobState(ACTIVE, pause=PAUSED, window=OUTSIDE),
        REST,
        {"unwait", "fail", "lose connector"},
    ),
    "shutting down": (
        JobState(Phase.SHUTTING_DOWN),
        {"abort", "reset seeding"},
        {"finish", "wake up", "fail", "lose connector"},
    ),
    "shutting down with approval": (
        JobState(Phase.SHUTTING_DOWN, guard=Guard.ALLOWED),
        {"abort", "reset seeding"},
        {"finish", "wake up", "fail", "lose connector"},
    ),
    "aborted before it started": (
        JobState(Phase.READY_FOR_STARTUP, stop_request=ABORT),
        set(),
        {"end aborted", "lose connector"},
    ),
    "aborted while starting": (
        JobState(Phase.STARTING_UP, stop_request=ABORT),
        set(),
        {"end aborted", "lose connector"},
    ),
    "aborted": (JobState(ACTIVE, stop_request=ABORT), set(), {"end aborted", "lose connector"}),
    "aborted while paused": (
        JobState(ACTIVE, pause=PAUSED, stop_request=ABORT),
        set(),
        {"end aborted", "lose connector"},
    ),
    "aborted while seeding": (
        JobState(ACTIVE, seeding=True, stop_request=ABORT),
        set(),
        {"end aborted", "lose connector"},
    ),
    "aborted at its end": (JobState(Phase.SHUTTING_DOWN, stop_request=ABORT), set(), {"end aborted", "lose connector"}),
    "restarted while starting": (
        JobState(Phase.STARTING_UP, stop_request=RESTART),
        {"abort"},
        {"start again", "lose connector"},
    ),
    "restarted": (
        JobState(ACTIVE, stop_request=RESTART, minimal=True),
        {"abort"},
        {"start again", "lose connector"},
    ),
    "asked to notify": (
        JobState(Phase.READY_FOR_NOTIFY),
        {"abort", "reset seeding"},
        {"notify", "end", "lose connector"},
    ),
    "notifying of a run whose removals wait": (
        JobState(Phase.NOTIFYING, guard=Guard.WAITING),
        {"abort", "reset seeding"},
        {"postpone notification", "end", "lose connector"},
    ),
    "notifying": (
        JobState(Phase.NOTIFYING),
        {"abort", "reset seeding"},
        {"postpone notification", "end", "lose connector"},
    ),
    "asked to be deleted": (JobState(Phase.READY_FOR_DELETE), set(), {"prepare deletion", "lose connector"}),
    "preparing its deletion": (JobState(Phase.DELETE_STARTING_UP), set(), {"begin deleting", "lose connector"}),
    "deleting": (JobState(Phase.DELETING), set(), {"end deleting", "lose connector"}),
    "deleting without its output": (
        JobState(Phase.DELETING, connectors_ready=False),
        set(),
        {"end deleting", "find connector"},
    ),
    "asked to notify of deletion": (
        JobState(Phase.READY_FOR_DELETE_NOTIFY),
        set(),
        {"notify of deletion", "go", "lose connector"},
    ),
    "notifying of deletion": (
        JobState(Phase.NOTIFYING_OF_DELETION),
        set(),
        {"postpone notification of deletion", "go", "lose connector"},
    ),
}


@each_row("name", TRANSITIONS)
@each_row("where", POSSIBLE)
def test_the_possible_transitions_of_each_state_equal_a_second_list(where, name):
    state, by_operator, by_itself = POSSIBLE[where]

    assert is_possible(TRANSITIONS[name], state) == (name in by_operator | by_itself)


@each_row("where", POSSIBLE)
def test_an_operator_sees_only_possible_transitions(where):
    state, by_operator, _ = POSSIBLE[where]

    assert {row.name for row in allowed_transitions(state, owner=Owner.OPERATOR)} == by_operator


def test_every_transition_is_possible_and_starts_in_existing_states():
    assert set().union(*(names for _, *both in POSSIBLE.values() for names in both)) == TRANSITIONS.keys()
    assert {source for row in TRANSITIONS.values() for source in row.sources} == SITUATIONS.keys()
    assert {situation_of(state) for state, *_ in POSSIBLE.values()} == SITUATIONS.keys()


@each_row("where", POSSIBLE)
@each_row("name", TRANSITIONS)
def test_a_transition_leads_from_a_state_that_has_a_name_to_another(where, name):
    state, row = POSSIBLE[where][0], TRANSITIONS[name]
    if not is_possible(row, state) or name == "go":
        return

    after = replace(state, **row.values_from(situation_of(state)))

    assert name_of_job(state)
    assert name_of_job(after)
    assert situation_of(after)


def test_exceptions_of_a_transition_are_for_its_own_source_states():
    assert all(row.unlike.keys() <= row.sources for row in TRANSITIONS.values())


def test_each_valid_state_is_in_exactly_one_situation():
    for state in all_states():
        if name_of_job(state):
            assert sum(holds(state) for holds in SITUATIONS.values()) == 1, state


def test_transitions_have_messages_and_those_of_operators_have_labels():
    assert all(row.label for row in TRANSITIONS.values() if row.owner == Owner.OPERATOR)
    assert all(row.message for row in TRANSITIONS.values())
    assert all(row.guard for row in TRANSITIONS.values() if row.owner != Owner.OPERATOR)


def test_two_transitions_with_one_name_are_refused():
    twice = Transition("start", frozenset(), {}, Owner.MAIN)

    with pytest.raises(ValueError, match="start"):
        by_name([twice, twice])


# --- Jobs: names ---------------------------------------------------------------------------------

# ManifoldCF's forty states, from its own list of constants. The list lacks states that only an upgrade reads.
MANIFOLDCF = [
    "INACTIVE",
    "READYFORSTARTUP",
    "READYFORSTARTUPMINIMAL",
    "STARTINGUP",
    "STARTINGUPMINIMAL",
    "ACTIVE",
    "ACTIVESEEDING",
    "ACTIVE_UNINSTALLED",
    "ACTIVESEEDING_UNINSTALLED",
    "ACTIVEWAITING",
    "ACTIVEWAITINGSEEDING",
    "ACTIVEWAIT",
    "ACTIVEWAITSEEDING",
    "PAUSING",
    "PAUSINGSEEDING",
    "PAUSED",
    "PAUSEDSEEDING",
    "PAUSINGWAITING",
    "PAUSINGWAITINGSEEDING",
    "PAUSEDWAIT",
    "PAUSEDWAITSEEDING",
    "RESUMING",
    "RESUMINGSEEDING",
    "SHUTTINGDOWN",
    "ABORTING",
    "ABORTINGSHUTTINGDOWN",
    "ABORTINGFORRESTART",
    "ABORTINGFORRESTARTMINIMAL",
    "ABORTINGFORRESTARTSEEDING",
    "ABORTINGFORRESTARTSEEDINGMINIMAL",
    "ABORTINGSTARTINGUPFORRESTART",
    "ABORTINGSTARTINGUPFORRESTARTMINIMAL",
    "READYFORNOTIFY",
    "NOTIFYINGOFCOMPLETION",
    "READYFORDELETE",
    "DELETESTARTINGUP",
    "DELETING",
    "DELETING_NOOUTPUT",
    "READYFORDELETENOTIFY",
    "NOTIFYINGOFDELETION",
]

NAMED = {
    "INACTIVE": JobState(),
    "STARTINGUPMINIMAL": JobState(Phase.STARTING_UP, minimal=True),
    "ACTIVESEEDING": JobState(ACTIVE, seeding=True),
    "ACTIVESEEDING_UNINSTALLED": JobState(ACTIVE, seeding=True, connectors_ready=False),
    "ACTIVEWAITINGSEEDING": JobState(ACTIVE, window=Window.WAITING, seeding=True),
    "ACTIVEWAIT": JobState(ACTIVE, window=Window.OUTSIDE),
    "PAUSINGWAITING": JobState(ACTIVE, pause=Pause.PAUSING, window=Window.WAITING),
    "PAUSEDWAITSEEDING": JobState(ACTIVE, pause=Pause.PAUSED, window=Window.OUTSIDE, seeding=True),
    "RESUMING": JobState(ACTIVE, resuming=True),
    "ABORTING": JobState(ACTIVE, stop_request=ABORT, pause=Pause.PAUSED),
    "ABORTINGSHUTTINGDOWN": JobState(Phase.SHUTTING_DOWN, stop_request=ABORT),
    "ABORTINGFORRESTARTSEEDINGMINIMAL": JobState(ACTIVE, stop_request=StopRequest.RESTART, seeding=True, minimal=True),
    "ABORTINGSTARTINGUPFORRESTART": JobState(Phase.STARTING_UP, stop_request=StopRequest.RESTART),
    "DELETING_NOOUTPUT": JobState(Phase.DELETING, connectors_ready=False),
}


def all_states():
    """Yield every combination of the dimensions, legal or not."""
    truths = (False, True)
    for facts in itertools.product(Phase, Pause, Window, StopRequest, truths, truths, truths, truths):
        yield JobState(*facts)


def test_exactly_the_forty_state_names_of_manifoldcf_occur():
    assert len(MANIFOLDCF) == 40
    assert states_by_name().keys() == set(MANIFOLDCF)


@each_row("name", NAMED)
def test_a_state_has_the_name_that_manifoldcf_gives_it(name):
    assert name_of_job(NAMED[name]) == name


def test_only_active_jobs_can_be_paused_waiting_or_resuming():
    for state in all_states():
        is_halted = state.pause != Pause.NO or state.window != Window.INSIDE or state.resuming
        if is_halted and state.phase != ACTIVE:
            assert name_of_job(state) == "", state


def test_documents_of_a_halting_job_are_not_handed_out():
    for state in all_states():
        if name_of_job(state) and state.is_draining:
            assert not state.may_be_stuffed, state
        if state.may_be_stuffed:
            assert name_of_job(state) in {"ACTIVE", "ACTIVESEEDING"}, state


# --- Documents -----------------------------------------------------------------------------------

DOCUMENTS = {
    "PENDING": {"stage": Stage.PENDING},
    "PENDINGPURGATORY": {"stage": Stage.PENDING, "indexed_before": True},
    "ACTIVE": {"stage": Stage.ACTIVE},
    "ACTIVEPURGATORY": {"stage": Stage.ACTIVE, "indexed_before": True},
    "ACTIVENEEDRESCAN": {"stage": Stage.ACTIVE, "rescan": True},
    "ACTIVENEEDRESCANPURGATORY": {"stage": Stage.ACTIVE, "indexed_before": True, "rescan": True},
    "COMPLETE": {"stage": Stage.DONE, "indexed_before": True},
    "PURGATORY": {"stage": Stage.DONE, "of_this_run": False},
    "UNCHANGED": {"stage": Stage.DONE, "of_this_run": False, "scan": Scan.CHANGES},
    "BEINGCLEANED": {"stage": Stage.BEING_CLEANED},
    "BEINGDELETED": {"stage": Stage.BEING_DELETED},
    "ELIGIBLEFORDELETE": {"stage": Stage.DONE, "deleting": True},
    "HOPCOUNTREMOVED": {"stage": Stage.HOPCOUNT_REMOVED},
}


def name_of(**facts):
    usual = {"indexed_before": False, "rescan": False, "of_this_run": True, "scan": Scan.FULL}
    return manifoldcf_name(**(usual | facts))


@each_row("name", DOCUMENTS)
def test_a_document_has_the_name_that_manifoldcf_gives_it(name):
    assert name_of(**DOCUMENTS[name]) == name


def test_documents_have_thirteen_names_and_one_if_they_do_not_exist():
    truths = (False, True)
    names = {
        manifoldcf_name(
            stage=stage, indexed_before=before, rescan=rescan, of_this_run=this_run, scan=scan, deleting=deleting
        )
        for stage, before, rescan, this_run, scan, deleting in itertools.product(
            Stage, truths, truths, truths, Scan, truths
        )
    }

    assert names == {*DOCUMENTS, ""}


def test_the_scan_decides_what_happens_to_documents_of_an_older_run():
    pending, done = {"stage": Stage.PENDING, "of_this_run": False}, {"stage": Stage.DONE, "of_this_run": False}

    assert {scan: name_of(**done, scan=scan) for scan in Scan} == {
        Scan.FULL: "PURGATORY",
        Scan.RECHECK: "PENDINGPURGATORY",
        Scan.CHANGES: "UNCHANGED",
    }
    assert {scan: name_of(**pending, scan=scan) for scan in Scan} == {
        Scan.FULL: "",
        Scan.RECHECK: "PENDING",
        Scan.CHANGES: "PENDING",
    }


def test_every_claim_of_a_document_ends():
    into = {row.becomes.get("stage") for row in DOCUMENT_TRANSITIONS.values()}
    sources = {source for row in DOCUMENT_TRANSITIONS.values() for source in row.sources}

    assert into >= CLAIMED
    assert {stage.name.lower().replace("_", " ") for stage in CLAIMED} <= sources
