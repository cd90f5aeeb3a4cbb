"""Proves that the diagram of the lifecycle of a job agrees with the table of its transitions."""

from collections import Counter
from dataclasses import replace

from jobs.lifecycle.arrows import STAGES, arrows_from
from jobs.lifecycle.job import SITUATIONS, Guard, JobState, Pause, Phase, allowed_transitions, situation_of
from jobs.lifecycle.job import states_by_name as all_states
from jobs.lifecycle.table import Owner
from jobs.ui.job_diagram import ROLE_FOR
from jobs.verbs.control import VERBS
from tests.support.tables import each_row

RUNNING = JobState(phase=Phase.ACTIVE)


def steps(state):
    return {arrow.transition.name: arrow.target for arrow in arrows_from(state)}


def test_each_state_of_the_table_belongs_to_one_stage_of_the_diagram():
    assert Counter(name for names in STAGES.values() for name in names) == dict.fromkeys(SITUATIONS, 1)


@each_row("name", sorted(all_states()))
def test_the_arrows_of_operators_are_the_transitions_that_the_crawl_allows(name):
    state = all_states()[name]

    arrows = [arrow.transition for arrow in arrows_from(state) if arrow.transition.owner == Owner.OPERATOR]

    assert arrows == allowed_transitions(state, owner=Owner.OPERATOR)


def test_an_arrow_leads_to_the_target_state_of_its_transition():
    assert steps(RUNNING)["pause"] == "pausing"
    assert steps(RUNNING)["shut down"] == "terminating"
    assert steps(replace(RUNNING, pause=Pause.PAUSED))["resume"] == "resuming"
    assert steps(JobState(phase=Phase.NOTIFYING_OF_DELETION))["go"] == "gone"
    assert steps(JobState(guard=Guard.WAITING))["refuse removals"] == "inactive"


def test_a_transition_that_keeps_the_state_has_no_arrow():
    assert "begin reseeding" not in steps(RUNNING)
    assert steps(RUNNING)["reset seeding"] == situation_of(RUNNING)


def test_the_permission_of_each_action_has_a_role():
    assert {verb.permission for verb in VERBS.values()} == ROLE_FOR.keys()
