"""A form that was open for a long time changes nothing that its user did not see, and each refusal is a page."""

import pytest
from django.test import Client

from jobs.models import Job
from tests.support.api import PASSWORD, make_job, make_user

pytestmark = pytest.mark.django_db

BROWSER = {"Accept": "text/html,*/*"}


def page_client(*roles):
    client = Client()
    client.force_login(make_user(*roles))
    return client


# --- The session ends while a form is open ----------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["/jobs/{}/?since=1", "/admin/jobs/job/{}/change/"])
def test_after_a_lost_session_the_login_leads_back_to_the_page_with_the_form(client, page):
    job = make_job()
    make_user("operator", name="otto", password=PASSWORD)
    page = page.format(job.pk)

    sent = client.post(
        f"/jobs/{job.pk}/transition/", {"transition": "start"}, headers={"Referer": f"http://testserver{page}"}
    )
    asked = client.get(sent["Location"])
    logged_in = client.post("/login/", {"username": "otto", "password": PASSWORD, "next": asked.context["next"]})

    assert "Your session had ended, so nothing was changed." in asked.content.decode()
    assert logged_in["Location"] == page
    assert Job.objects.get().phase == "inactive"


@pytest.mark.parametrize("referer", ["", "http://elsewhere.test/jobs/1/"])
def test_without_a_page_of_this_site_the_login_leads_to_the_overview(client, referer):
    sent = client.post("/jobs/1/transition/", {"transition": "start"}, headers={"Referer": referer})

    assert sent["Location"] == "/login/?next=/"


def test_a_form_that_is_older_than_the_login_is_refused_with_a_sentence():
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("operator"))

    refused = client.post(f"/jobs/{make_job().pk}/transition/", {"transition": "start"})

    assert refused.status_code == 403
    assert "Nothing was changed: the form is older than your login" in refused.content.decode()
    assert Job.objects.get().phase == "inactive"


def test_an_address_that_takes_forms_only_says_so_to_a_browser():
    client = page_client("operator")

    shown = client.get("/jobs/1/transition/", headers=BROWSER)

    assert (shown.status_code, shown["Allow"]) == (405, "POST")
    assert "only takes the form of another page" in shown.content.decode()
    assert client.get("/jobs/1/transition/").content == b""


# --- Lists without a row ----------------------------------------------------------------------------------------------


def test_an_empty_list_asks_nobody_to_create_what_only_others_may_create():
    client = page_client("viewer")

    assert "There are no rows." in client.get("/admin/jobs/throttlepolicy/").content.decode()
    searched = client.get("/admin/jobs/throttlepolicy/?q=nothing").content.decode()
    assert "No row matches." in searched
    assert "Reset filters" in searched
    assert "Add throttle policy" not in searched


@pytest.mark.parametrize("page", ["/admin/jobs/job/add/", "/jobs/{}/pipeline/"])
def test_the_help_of_a_pipeline_exists(page):
    client = page_client("administrator")

    assert 'href="/manual/docs/pipelines.html"' in client.get(page.format(make_job().pk)).content.decode()
    assert client.get("/manual/docs/pipelines.html").status_code == 200
