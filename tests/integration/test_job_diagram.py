"""Proves the diagram of the lifecycle, and the timeline, on the page of a job."""

import datetime as dt

import pytest

from crawlctl.access.roles import ROLES
from jobs.lifecycle.job import Guard, Phase
from jobs.models import Job
from jobs.state import journal
from jobs.state.transitions import make_transition
from jobs.ui.job_diagram import ROLE_FOR
from jobs.verbs import control
from tests.integration.test_pages import page_client
from tests.support.cluster import NOON
from tests.support.factories import make_job

pytestmark = pytest.mark.django_db

MINUTE = dt.timedelta(minutes=1)


def begin(job, *, at):
    control.start(job.pk, made_by="ann", now=at)
    make_transition(job.pk, "prepare", made_by="manager-1", now=at + MINUTE, facts={"run_no": job.run_no + 1})
    make_transition(job.pk, "activate", made_by="manager-1", now=at + 2 * MINUTE)


def shown(job, role="operator"):
    return page_client(role).get(f"/jobs/{job.pk}/")


def lit(page):
    return {
        state["key"]: state["lit"]
        for stage in page.context["screen"]["stages"]
        for state in stage["states"]
        if state["lit"]
    }


def test_the_diagram_marks_the_present_state_and_states_one_step_away():
    job = make_job()
    begin(job, at=NOON)

    page = shown(job)

    states = lit(page)
    assert states["running"] == "here"
    assert states["pausing"] == states["aborting"] == states["terminating"] == "next"
    assert "notifying" not in states


def test_each_transition_has_only_one_button_on_the_page_of_a_job():
    job = make_job()
    begin(job, at=NOON)

    html = shown(job).content.decode()

    assert html.count('value="pause"') == 1
    assert html.count('value="abort"') == 1


def test_an_interrupt_is_listed_only_for_a_job_of_a_one_shot():
    job = make_job()
    begin(job, at=NOON)
    client = page_client("operator")

    def by_itself():
        return [row["key"] for row in client.get(f"/jobs/{job.pk}/").context["screen"]["by_itself"]]

    assert "interrupt" not in by_itself()
    Job.objects.filter(pk=job.pk).update(node_scope="one-shot-1")
    assert "interrupt" in by_itself()


def test_each_arrow_of_an_operator_is_a_button_with_its_role():
    job = make_job()
    begin(job, at=NOON)

    page = shown(job)

    steps = {row["key"]: (row["target"], row["by"]) for row in page.context["screen"]["steps"]}
    assert steps["pause"] == ("Pausing", "operator")
    assert steps["reset-seeding"] == ("no other state", "operator")
    assert 'class="leads" data-cell="target">Pausing</span>' in " ".join(page.content.decode().split())


def test_a_viewer_sees_arrows_without_buttons():
    job = make_job()
    begin(job, at=NOON)

    html = shown(job, "viewer").content.decode()

    assert 'data-cell="target">Pausing</span>' in html
    assert "<button" not in html[html.index('id="diagram"') : html.index("timeline")]


def test_an_arrow_whose_effect_is_explained_first_leads_to_the_explanation():
    job = make_job()
    Job.objects.filter(pk=job.pk).update(phase=Phase.INACTIVE, guard=Guard.WAITING)

    asked = {row["key"]: (row["address"], row["by"]) for row in shown(job).context["screen"]["asked"]}

    assert asked == {
        "allow-removals": (f"/jobs/{job.pk}/removals/", "operator"),
        "refuse-removals": (f"/jobs/{job.pk}/removals/", "operator"),
        "delete": (f"/jobs/{job.pk}/#delete", "administrator"),
    }


def test_each_permission_is_named_with_the_lowest_role_that_has_it():
    for permission, name in ROLE_FOR.items():
        assert next(role for role, permissions in ROLES.items() if permission in permissions) == name


def test_the_timeline_has_the_runs_transitions_with_author_and_reason():
    job = make_job()
    begin(job, at=NOON - dt.timedelta(days=1))
    control.abort(job.pk, made_by="bob", now=NOON - dt.timedelta(hours=1))
    Job.objects.filter(pk=job.pk).update(phase=Phase.INACTIVE, stop_request="none")
    begin(job, at=NOON)
    journal.record(job, kind="edited", message="was edited", made_by="ann", now=NOON + 3 * MINUTE)
    control.abort(job.pk, made_by="bob", reason="wrong seed", now=NOON + 5 * MINUTE)

    moves = [(row["to"], row["message"], row["who"], row["took"]) for row in shown(job).context["screen"]["moves"]]

    assert moves[1:] == [
        ("Running", "Is running", "manager-1", "3 min 0 s"),
        ("Starting up", "Prepares its run", "manager-1", "1 min 0 s"),
        ("Ready for startup", "Was started", "ann", "1 min 0 s"),
    ]
    assert moves[0][:3] == ("Aborting", "Was asked to abort: wrong seed", "bob")
