"""Administrators see the results of drills on their page, and other users are refused."""

import json

import pytest
from django.test import Client

from crawlctl.drill.models import Drill
from jobs.models import OutputConnection
from nodes.database.clock import read_clock
from nodes.models import DatabaseRestore
from nodes.tasks.models import Task
from tests.support.api import make_user

REPORT = {"detected": 2.04, "returned": 2.31, "fetched": None, "missing": ["nothing was fetched any more"]}

pytestmark = pytest.mark.django_db


def visitor(role):
    client = Client()
    client.force_login(make_user(role))
    return client


def make_drill(**facts):
    known = {"fault": "kill", "whom": "worker", "node": "worker w1", "where": "sandbox", "is_good": True}
    return Drill.objects.create(**{**known, "report": {**REPORT, "missing": []}, **facts})


def test_an_administrator_finds_the_results_of_drills_on_the_cluster_page():
    make_drill()
    make_drill(whom="main", is_good=False, report=REPORT)
    client = visitor("administrator")
    assert "/cluster/drills/" in client.get("/cluster/").content.decode()

    page = client.get("/cluster/drills/").content.decode()

    assert "failed after 2.0 s, returned after 2.3 s, missing: nothing was fetched any more" in page
    assert page.index("failed") < page.index("passed")


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_other_roles_are_refused_and_see_no_link(role):
    client = visitor(role)

    assert client.get("/cluster/drills/").status_code == 403
    assert "/cluster/drills/" not in client.get("/cluster/").content.decode()


def test_an_administrator_starts_a_drill_as_a_task():
    client = visitor("administrator")

    for drill in ("freeze main", "restore"):
        answer = client.post("/cluster/drills/start/", {"drill": drill})
        assert answer.status_code == 302
        assert answer["Location"] == f"/tasks/{Task.objects.order_by('pk').last().pk}/"

    tasks = Task.objects.order_by("pk").values_list("kind", "arguments")
    assert list(tasks) == [("drill", {"drill": "freeze main"}), ("drill_restore", {})]


@pytest.mark.parametrize("drill", ["", "kill database", "kill\x00main", "cut"])
def test_a_drill_that_does_not_exist_is_refused(drill):
    answer = visitor("administrator").post("/cluster/drills/start/", {"drill": drill}, follow=True)

    assert "Choose a drill from the list." in answer.content.decode()
    assert not Task.objects.exists()


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_other_roles_start_no_drill(role):
    assert visitor(role).post("/cluster/drills/start/", {"drill": "kill worker"}).status_code == 403
    assert not Task.objects.exists()


def test_drills_that_passed_have_a_chart_of_their_recovery():
    make_drill()
    make_drill(is_good=False, report=REPORT)
    make_drill(
        fault="restore", whom="database", report={"lost": 90.0, "recovery": 6.25, "read_again": 37, "missing": []}
    )

    (series,) = json.loads(visitor("administrator").get("/cluster/drills/").context["chart"])["series"]

    assert series["values"] == [2.31, 6.25]


def test_the_page_says_if_no_drill_has_run():
    assert "No drills yet." in visitor("administrator").get("/cluster/drills/").content.decode()


def test_the_page_of_drills_shows_backups_restores_and_restore_drills():
    client = visitor("administrator")
    page = client.get("/cluster/drills/").content.decode()
    assert "No backup on this machine is known." in page

    DatabaseRestore.objects.create(before="a", after="b", nodes_ended=2, as_of=read_clock())
    OutputConnection.objects.create(name="search", connector="search")
    facts = {"lost": 90.0, "recovery": 6.25, "read_again": 37, "missing": []}
    make_drill(fault="restore", whom="database", report=facts)
    make_drill(fault="restore", whom="database", is_good=False, report={**facts, "recovery": None, "missing": ["why"]})
    make_drill(fault="restore", whom="database", report={**facts, "lost": 120.0, "is_sealed": False})
    make_drill(fault="restore", whom="database", report={**facts, "is_sealed": True})

    page = client.get("/cluster/drills/").content.decode()

    assert "1.5 minutes lost, recovered in 6.2 s, 37 documents would be read again" in page
    assert page.count("nothing proves its origin") == 1
    assert "37 documents would be read again, not sealed as a whole, so nothing proves its origin" in page
    assert "The database was restored to its state of" in page
    assert "Outputs to verify: search." in page
    assert "why" in page
