"""The lifecycles against a second list, written by hand: what may happen in which state, and what it is called."""

import itertools

import pytest

from jobs.lifecycle.document import CLAIMED, Stage, manifoldcf_name
from jobs.lifecycle.document import TRANSITIONS as DOCUMENT_TRANSITIONS
from jobs.lifecycle.job import (
    SITUATIONS,
    TRANSITIONS,
    JobState,
    Pause,
    Phase,
    Scan,
    StopRequest,
    Window,
    allowed_transitions,
    situation_of,
    states_by_name,
)
from jobs.lifecycle.job import manifoldcf_name as name_of_job
from jobs.lifecycle.table import Owner, Transition, by_name

ACTIVE, ABORT = Phase.ACTIVE, StopRequest.ABORT

# --- Jobs: every pair of a state and a transition ------------------------------------------------

# Each state with the operator's, and with the main's and owners' transitions that are possible in it.
POSSIBLE = {
    "inactive": (JobState(), {"start", "delete"}, set()),
    "asked to start": (JobState(Phase.READY_FOR_STARTUP), {"abort"}, {"prepare"}),
    "starting": (JobState(Phase.STARTING_UP), {"abort"}, {"activate"}),
    "running": (JobState(ACTIVE), {"pause", "abort"}, {"shut down", "end at its limit", "interrupt"}),
    "pausing": (JobState(ACTIVE, pause=Pause.PAUSING), {"resume", "abort"}, {"come to rest", "interrupt"}),
    "paused": (JobState(ACTIVE, pause=Pause.PAUSED), {"resume", "abort"}, set()),
    "shutting down": (JobState(Phase.SHUTTING_DOWN), {"abort"}, {"finish"}),
    "aborted before it started": (JobState(Phase.READY_FOR_STARTUP, stop_request=ABORT), set(), {"end aborted"}),
    "aborted while starting": (JobState(Phase.STARTING_UP, stop_request=ABORT), set(), {"end aborted"}),
    "aborted": (JobState(ACTIVE, stop_request=ABORT), set(), {"end aborted"}),
    "aborted while paused": (JobState(ACTIVE, pause=Pause.PAUSED, stop_request=ABORT), set(), {"end aborted"}),
    "aborted at its end": (JobState(Phase.SHUTTING_DOWN, stop_request=ABORT), set(), {"end aborted"}),
    "asked to be deleted": (JobState(Phase.READY_FOR_DELETE), set(), {"begin deleting"}),
    "deleting": (JobState(Phase.DELETING), set(), set()),
    "resuming": (JobState(ACTIVE, resuming=True), set(), set()),
    "asked to notify": (JobState(Phase.READY_FOR_NOTIFY), set(), set()),
}


@pytest.mark.parametrize("name", TRANSITIONS)
@pytest.mark.parametrize("where", POSSIBLE)
def test_a_transition_starts_where_the_second_list_says_and_nowhere_else(where, name):
    state, by_operator, by_itself = POSSIBLE[where]

    starts_here = situation_of(state) in TRANSITIONS[name].sources

    assert starts_here == (name in by_operator | by_itself)


@pytest.mark.parametrize("where", POSSIBLE)
def test_an_operator_is_offered_his_own_transitions_only(where):
    state, by_operator, _ = POSSIBLE[where]

    assert {row.name for row in allowed_transitions(state, owner=Owner.OPERATOR)} == by_operator


def test_every_transition_is_possible_somewhere_and_starts_in_states_that_there_are():
    assert set().union(*(names for _, *both in POSSIBLE.values() for names in both)) == TRANSITIONS.keys()
    assert {source for row in TRANSITIONS.values() for source in row.sources} == SITUATIONS.keys() - {"deleting"}


def test_a_state_is_in_one_situation_at_most():
    for state in all_states():
        assert sum(holds(state) for holds in SITUATIONS.values() if name_of_job(state)) <= 1, state


def test_what_an_operator_does_has_a_label_and_what_is_done_has_words():
    assert all(row.label for row in TRANSITIONS.values() if row.owner == Owner.OPERATOR)
    assert all(row.says for row in TRANSITIONS.values())
    assert all(row.guard for row in TRANSITIONS.values() if row.owner == Owner.MAIN and row.name != "begin deleting")


def test_two_transitions_of_one_name_are_a_mistake():
    twice = Transition("start", frozenset(), {}, Owner.MAIN)

    with pytest.raises(ValueError, match="start"):
        by_name([twice, twice])


# --- Jobs: names ---------------------------------------------------------------------------------

# ManifoldCF's forty, from its own list of constants without those that only an upgrade reads.
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
    """Every tuple of the dimensions, legal or not."""
    truths = (False, True)
    for facts in itertools.product(Phase, Pause, Window, StopRequest, truths, truths, truths, truths):
        yield JobState(*facts)


def test_all_forty_names_of_manifoldcf_occur_and_no_other():
    assert len(MANIFOLDCF) == 40
    assert states_by_name().keys() == set(MANIFOLDCF)


@pytest.mark.parametrize("name", NAMED)
def test_a_state_has_the_name_that_manifoldcf_gives_it(name):
    assert name_of_job(NAMED[name]) == name


def test_pauses_windows_and_resuming_are_of_active_jobs_only():
    for state in all_states():
        rests = state.pause != Pause.NO or state.window != Window.INSIDE or state.resuming
        if rests and state.phase != ACTIVE:
            assert name_of_job(state) == "", state


def test_a_job_that_comes_to_rest_is_handed_out_no_more():
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


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_has_the_name_that_manifoldcf_gives_it(name):
    assert name_of(**DOCUMENTS[name]) == name


def test_documents_have_thirteen_names_and_one_for_what_is_not_there():
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


def test_what_an_older_run_left_is_there_as_the_scan_says():
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


def test_a_document_comes_out_of_every_claim():
    into = {row.becomes.get("stage") for row in DOCUMENT_TRANSITIONS.values()}
    sources = {source for row in DOCUMENT_TRANSITIONS.values() for source in row.sources}

    assert into >= CLAIMED
    assert {stage.name.lower().replace("_", " ") for stage in CLAIMED} <= sources
