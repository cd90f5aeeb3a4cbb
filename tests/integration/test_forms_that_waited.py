"""
Proves that a form that was open for a long time overwrites no change that its user did not see. Each refusal is a page.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connection as django_connection
from django.test import Client

from jobs.authorities.models import AuthorityGroup
from jobs.models import Job, OutputConnection, ThrottlePolicy
from jobs.notices import verbs as notices
from jobs.verbs import control, editing
from nodes.database.clock import read_clock
from nodes.tasks import verbs
from nodes.web.form_conflicts import mark_of
from tests.support import lost_conflicts
from tests.support.api import PASSWORD, make_job, make_user
from tests.support.browser_forms import fields_of, opened
from tests.support.waiting import wait_for

pytestmark = pytest.mark.django_db

# Query for forms that wait for the database lock of another form.
WAITING = """
SELECT count(*) FROM pg_stat_activity
 WHERE datname = current_database() AND wait_event = 'advisory' AND query LIKE '%form of%'
"""
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
    confirmation = client.get(sent["Location"])
    logged_in = client.post("/login/", {"username": "otto", "password": PASSWORD, "next": confirmation.context["next"]})

    assert "Your session had ended, so nothing was changed." in confirmation.content.decode()
    assert logged_in["Location"] == page
    assert Job.objects.get().phase == "inactive"


@pytest.mark.parametrize("referer", ["", "http://elsewhere.test/jobs/1/"])
def test_a_form_from_another_site_leads_to_the_overview_after_the_login(client, referer):
    sent = client.post("/jobs/1/transition/", {"transition": "start"}, headers={"Referer": referer})

    assert sent["Location"] == "/login/?next=/"


def test_a_form_that_is_older_than_the_login_is_refused_with_a_reason():
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("operator"))

    refused = client.post(f"/jobs/{make_job().pk}/transition/", {"transition": "start"})

    assert refused.status_code == 403
    assert "Nothing was changed: the form is older than your login" in refused.content.decode()
    assert Job.objects.get().phase == "inactive"


def test_an_address_that_accepts_only_forms_explains_a_get_request():
    client = page_client("operator")

    shown = client.get("/jobs/1/transition/", headers=BROWSER)

    assert (shown.status_code, shown["Allow"]) == (405, "POST")
    assert "only accepts a form from another page" in shown.content.decode()
    assert client.get("/jobs/1/transition/").content == b""


# --- Lists without a row ----------------------------------------------------------------------------------------------


def test_an_empty_list_does_not_ask_viewers_to_add_a_row():
    client = page_client("viewer")

    assert "There are no rows." in client.get("/admin/jobs/throttlepolicy/").content.decode()
    searched = client.get("/admin/jobs/throttlepolicy/?q=nothing").content.decode()
    assert "No row matches." in searched
    assert "Reset filters" in searched
    assert "Add throttle policy" not in searched


@pytest.mark.parametrize("page", ["/admin/jobs/job/add/", "/jobs/{}/pipeline/"])
def test_the_help_page_to_which_a_pipeline_links_exists(page):
    client = page_client("administrator")

    assert 'href="/manual/docs/pipelines.html"' in client.get(page.format(make_job().pk)).content.decode()
    assert client.get("/manual/docs/pipelines.html").status_code == 200


# --- Another user changes what a form shows ---------------------------------------------------------------------------

CHANGED = "This was changed after you opened the form, so nothing was stored."


def page_of(kind):
    """Create an object. Return the address of its form, and a field with another value."""
    job = make_job(policy=ThrottlePolicy.objects.create(name="gently"))
    match kind:
        case "job":
            return f"/admin/jobs/job/{job.pk}/change/", {"priority": "9"}
        case "policy":
            return f"/admin/jobs/throttlepolicy/{ThrottlePolicy.objects.get().pk}/change/", {"min_gap": "7.0"}
        case "repository":
            return f"/admin/jobs/repositoryconnection/{job.repository_id}/change/", {"name": "another web"}
        case "output":
            return f"/admin/jobs/outputconnection/{OutputConnection.objects.get().pk}/change/", {
                "name": "another index"
            }
        case "authority group":
            group = AuthorityGroup.objects.create(name="staff")
            return f"/admin/authorities/authoritygroup/{group.pk}/change/", {"name": "crew"}
        case "user":
            return f"/admin/auth/user/{make_user('viewer', name='vera').pk}/change/", {"email": "vera@example.org"}
        case "channel":
            channel = notices.create_channel(
                kind="webhook",
                name="hook",
                configuration={"url": "http://hook.test/", "secret": f"whsec_{'c2Vj' * 8}"},
                made_by="a test",
            )
            return f"/notifications/channels/{channel.pk}/", {"most_an_hour": "3"}
        case "rule":
            rule = notices.create_rule(name="all", made_by="a test")
            return f"/notifications/rules/{rule.pk}/", {"minutes": "3"}
        case "template":
            schedule = {"every_minutes": 7}
            template = verbs.put_template(
                urn="mine", kind="clean_archive", arguments={}, schedule=schedule, made_by="a test"
            )
            return f"/tasks/templates/{template.pk}/", {"every_minutes": "8"}
    raise ValueError(kind)


@pytest.mark.parametrize(
    "kind",
    ["job", "policy", "repository", "output", "authority group", "user", "channel", "rule", "template"],
)
def test_a_form_replaces_no_values_that_its_user_did_not_see(kind):
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    address, change = page_of(kind)
    first, second = opened(client, address), opened(client, address)

    assert client.post(address, second | change).status_code == 302
    refused = client.post(address, first)

    assert refused.status_code == 200
    assert CHANGED in refused.content.decode()
    (field, value), *_ = change.items()
    assert opened(client, address)[field] == [value]


@pytest.mark.django_db(transaction=True)
def test_one_of_two_simultaneous_forms_is_refused(connection, other_connection):
    root = User.objects.create_superuser("root")
    address, change = page_of("policy")
    policy = ThrottlePolicy.objects.get().pk

    def send(client, form):
        try:
            return client.post(address, form)
        finally:
            # Each thread has a separate connection.
            django_connection.close()

    clients = [Client(), Client()]
    for client in clients:
        client.force_login(root)
    forms = [opened(client, address) | change for client in clients]
    with ThreadPoolExecutor(2) as pool:
        with connection.transaction():
            connection.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"form of jobs.ThrottlePolicy {policy}"]
            )
            answers = [pool.submit(send, *each) for each in zip(clients, forms, strict=True)]
            wait_for(
                lambda: other_connection.execute(WAITING).fetchone()[0] == 2,
                saying="both forms wait for the third change",
            )
        statuses = sorted(answer.result().status_code for answer in answers)

    assert statuses == [200, 302]


@pytest.mark.parametrize("code", lost_conflicts.CODES)
def test_a_form_that_lost_a_conflict_can_be_sent_again_with_its_input(code):
    client = page_client("administrator")
    address, _ = page_of("policy")
    mine = opened(client, address) | {"min_gap": ["3.0"]}

    with lost_conflicts.losing(code):
        lost = client.post(address, mine)
    sent = fields_of(lost, field="min_gap")
    stored = client.post(address, sent)

    assert lost.status_code == 409
    assert "Send the form again. Your input is kept." in lost.content.decode()
    assert sent["min_gap"] == ["3.0"]
    assert stored.status_code == 302
    assert ThrottlePolicy.objects.get().min_gap == 3.0


def test_a_resent_form_names_the_field_of_a_name_that_was_taken_meanwhile():
    client = page_client("administrator")
    address = "/admin/jobs/throttlepolicy/add/"
    mine = opened(client, address, field="min_gap") | {"name": ["gently"]}

    with lost_conflicts.losing("23505", words='INSERT INTO "jobs_throttlepolicy"'):
        late = client.post(address, mine)
    ThrottlePolicy.objects.create(name="gently")
    refused = client.post(address, fields_of(late, field="min_gap"))

    assert late.status_code == 409
    assert "Send the form again. Your input is kept." in late.content.decode()
    assert "Another policy has the name" in refused.content.decode()


def test_a_form_with_a_secret_that_lost_a_conflict_is_not_shown_again():
    client = page_client("administrator")
    address, _ = page_of("channel")
    mine = opened(client, address) | {"secret": f"whsec_{'b3Ro' * 8}", "most_an_hour": "3"}

    with lost_conflicts.losing("40P01"):
        lost = client.post(address, mine)

    assert lost.status_code == 409
    assert "Reload this page to send the form again." in lost.content.decode()
    assert "whsec_" not in lost.content.decode()


def test_a_page_whose_change_lost_a_conflict_asks_for_a_reload():
    client = page_client("administrator")

    with lost_conflicts.losing("40001", words='FROM "jobs_throttlepolicy"'):
        lost = client.get("/admin/jobs/throttlepolicy/")

    assert lost.status_code == 409
    assert "so the page could not be read. Reload this page." in lost.content.decode()


def test_a_refused_form_that_is_sent_again_with_its_new_mark_is_stored():
    client = page_client("administrator")
    address, _ = page_of("policy")
    mine = opened(client, address) | {"min_gap": ["3.0"]}
    client.post(address, opened(client, address) | {"min_gap": "7.0"})

    refused = client.post(address, mine)
    stored = client.post(address, mine | {"seen": refused.context["seen"]})

    assert stored.status_code == 302
    assert ThrottlePolicy.objects.get().min_gap == 3.0


def test_seeds_that_another_user_removed_stay_removed():
    client = page_client("administrator")
    job = make_job(urls=("http://docs.test/",))
    address = f"/admin/jobs/job/{job.pk}/change/"
    mine = opened(client, address)
    client.post(address, opened(client, address) | {"seeds-0-urls": "http://other.test/"})

    refused = client.post(address, mine)

    assert CHANGED in refused.content.decode()
    assert [seed.urls for seed in job.seeds.filter(removed_at=None)] == [["http://other.test/"]]


def test_a_form_of_a_job_that_started_meanwhile_is_refused_with_a_reason():
    client = page_client("administrator")
    job = make_job()
    address = f"/admin/jobs/job/{job.pk}/change/"
    mine = opened(client, address)
    control.VERBS["start"].perform(job.pk, made_by="another", now=read_clock())

    refused = client.post(address, mine | {"name": "another name"})

    assert CHANGED in refused.content.decode()
    assert Job.objects.get().name == "manual"


def test_a_pipeline_replaces_no_stages_that_its_user_did_not_see():
    client = page_client("administrator")
    job = make_job()
    address = f"/jobs/{job.pk}/pipeline/"
    mine = opened(client, address)
    editing.change_job(job.pk, outputs=[OutputConnection.objects.create(name="other")], made_by="a", now=read_clock())

    with_stage = client.post(address, mine | {"add_stage": "1", "add_kind": "null"})
    refused = client.post(address, mine | {"save": "1"})

    assert with_stage.context["seen"] == mine["seen"][0]
    assert refused.status_code == 409
    assert CHANGED in refused.content.decode()


@pytest.mark.parametrize("kind", ["job", "policy", "repository", "output", "user", "channel", "rule", "template"])
def test_a_form_with_the_present_values_is_stored(kind):
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    address, _ = page_of(kind)

    assert client.post(address, opened(client, address)).status_code == 302


def test_the_mark_of_a_form_does_not_depend_on_the_order_of_related_rows():
    one, other = User(pk=1), User(pk=2)

    assert mark_of({"a": [one, other]}) == mark_of({"a": [other, one]})
    assert mark_of({"a": ["1", "2"]}) != mark_of({"a": ["2", "1"]})
    assert mark_of({"a": None}) != mark_of({"a": ""})


# --- A confirmation page that was open while the state changed --------------------------------------------------------


def test_a_confirmation_of_a_start_that_another_user_made_is_refused():
    client = page_client("operator")
    job = make_job()
    address = f"/admin/jobs/job/{job.pk}/do-start/"
    assert client.get(address).status_code == 200
    control.VERBS["start"].perform(job.pk, made_by="another", now=read_clock())

    refused = client.post(address).content.decode()

    assert "Job manual cannot start while it is" in refused
    assert "no role" not in refused


def test_a_refused_transition_is_in_the_language_of_the_page():
    client = page_client("operator")
    client.defaults["HTTP_ACCEPT_LANGUAGE"] = "de"
    job = make_job()
    control.VERBS["start"].perform(job.pk, made_by="another", now=read_clock())

    client.post(f"/jobs/{job.pk}/transition/", {"transition": "start"})

    shown = client.get(f"/jobs/{job.pk}/").content.decode()
    assert "Job manual: „Start“ ist im Zustand „Startet“ nicht möglich. Jetzt möglich: Abbrechen, " in shown


def test_a_form_of_a_job_that_is_being_deleted_leads_to_its_page():
    client = page_client("administrator")
    job = make_job()
    address = f"/admin/jobs/job/{job.pk}/change/"
    mine = opened(client, address)
    control.VERBS["delete"].perform(job.pk, made_by="another", now=read_clock())

    refused = client.post(address, mine, follow=True)

    assert refused.redirect_chain == [(f"/jobs/{job.pk}/", 302)]
    assert "manual is ending or being deleted, so nothing was stored." in refused.content.decode()


def test_a_connection_that_a_job_began_to_use_is_not_deleted():
    client = page_client("administrator")
    output = OutputConnection.objects.create(name="spare")
    address = f"/admin/jobs/outputconnection/{output.pk}/delete/"
    assert client.get(address).status_code == 200
    job = make_job()
    job.outputs.add(output)

    refused = client.post(address, {"post": "yes"})

    assert refused.status_code == 403
    assert "spare cannot be deleted, because a job uses it." in refused.content.decode()
    assert OutputConnection.objects.filter(pk=output.pk).exists()
