"""Proves that each page is shown to the permitted roles, with the right text and buttons."""

import datetime as dt
import re
import uuid

import pytest
from django.contrib.staticfiles import finders
from django.db import connection
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from jobs.connectors.repository.base import hash_of
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import TRANSITIONS, Pause, Phase
from jobs.models import (
    Bin,
    CarryDown,
    CounterDelta,
    Gate,
    GatedDocument,
    HopCount,
    IndexedDocument,
    Job,
    LaneState,
    Outcome,
    OutLinks,
    OutputConnection,
    QueueItem,
    Seed,
)
from jobs.queries.documents.lists import STATES
from jobs.verbs.control import VERBS
from nodes.models import MainTerm, Node
from tests.support.api import NOON, make_documents, make_job, make_node, make_user, set_phase
from tests.support.factories import make_lane
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

PAGES = (
    *("/", "/documents/", "/hosts/", "/hosts/denied/", "/cluster/", "/nodes/", "/settings/", "/search/"),
    *("/tasks/", "/tasks/scheduled/", "/tasks/archived/", "/tasks/templates/", "/tasks/workers/"),
)


def page_client(*roles):
    client = Client()
    client.force_login(make_user(*roles))
    return client


def count(job, amount, *, stage=Stage.DONE, outcome=Outcome.INDEXED, code="200", host="docs.test"):
    """Add this number of documents of a host to the counters of the job."""
    lane = make_lane(job.seeds.get(), host, ready_at=None)
    CounterDelta.objects.create(
        job_id=job.pk,
        lane_id=lane.pk,
        run_no=job.run_no,
        measure="stage",
        stage=stage,
        outcome=outcome,
        code=code,
        amount=amount,
    )


def make_document(job, url, **facts):
    (document,) = make_documents(job, 1, **facts)
    QueueItem.objects.filter(hash=document.hash).update(hash=uuid.UUID(hash_of(url)), identifier=url)
    return QueueItem.objects.get(identifier=url)


# --- Without a database --------------------------------------------------------------------------


@pytest.fixture
def without_database():
    """Let the database be down, as during a restart of its server."""
    connection.close()
    name = connection.settings_dict["NAME"]
    connection.settings_dict["NAME"] = "nowhere"
    yield
    connection.close()
    connection.settings_dict["NAME"] = name


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", [*PAGES, "/jobs/1/", "/admin/jobs/job/"])
def test_a_page_says_that_the_database_does_not_answer(path, request):
    client = page_client("administrator")
    client.raise_request_exception = False
    request.getfixturevalue("without_database")

    response = client.get(path)

    assert response.status_code == 503
    page = response.content.decode()
    assert "The database does not answer: it lacks the database that DATABASE_URL names." in page
    assert "No data is lost" in page


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("path", ["/api/v1/jobs/", "/api/v1/search/?q=word"])
def test_the_api_answers_a_database_outage_in_the_form_of_its_errors(path, request):
    client = page_client("administrator")
    client.raise_request_exception = False
    request.getfixturevalue("without_database")

    response = client.get(path)

    assert response.status_code == 503
    assert response.json() == {
        "title": "Service Unavailable",
        "status": 503,
        "code": "database_unavailable",
        "detail": "The database does not answer: it lacks the database that DATABASE_URL names; try again.",
    }


# --- Access --------------------------------------------------------------------------------------


def _own_paths():
    """Yield each address of the pages, with a value in place of each variable."""

    def walk(patterns, prefix=""):
        for pattern in patterns:
            if isinstance(pattern, URLResolver) and "api" not in str(pattern.pattern):
                yield from walk(pattern.url_patterns, prefix + str(pattern.pattern))
            elif isinstance(pattern, URLPattern):
                yield prefix + str(pattern.pattern)

    values = {"<int:job_id>": "1", "<document_key:document_hash>": "0" * 32, "<uuid:node_id>": str(uuid.UUID(int=1))}
    for path in walk(get_resolver().url_patterns):
        for name, value in values.items():
            path = path.replace(name, value)  # noqa: PLW2901
        if "<" not in path and "(" not in path and "^" not in path:
            yield f"/{path}"


# Addresses that do not lead to the login: login, logout, language, the pages for webmasters, and addresses for programs
# with a token.
_FOR_PROGRAMS = {"/metrics", "/UserACLs", "/mcf-authority-service/UserACLs", "/api/v1/drills/"}
_LOGINS = {"/login/", "/login/link/", *(f"/login/provider/{page}" for page in ("", "answer/", "end/"))}
_NO_PAGES = {*_LOGINS, "/logout/", "/language/", "/admin/login/", "/admin/logout/", "/webmasters/", *_FOR_PROGRAMS}


@each_row("path", sorted(set(_own_paths()) - _NO_PAGES))
def test_without_a_login_every_page_leads_to_the_login(client, path):
    response = client.get(path)

    assert response.status_code == 302
    assert response["Location"].startswith("/login/") or "/admin/login/" in response["Location"]


@each_row("path", PAGES)
def test_a_user_without_a_role_is_refused(path):
    assert page_client().get(path).status_code == 403


@each_row("path", PAGES)
@each_row("role", ["viewer", "operator", "administrator"])
def test_every_role_sees_every_page_without_any_data(role, path):
    assert page_client(role).get(path).status_code == 200


def test_the_set_up_is_open_to_roles_and_closed_to_others():
    assert page_client("administrator").get("/admin/jobs/job/add/").status_code == 200
    assert page_client("viewer").get("/admin/jobs/job/add/").status_code == 403
    assert page_client().get("/admin/jobs/job/add/").status_code == 302


@each_row("path", [*PAGES, "/login/", "/manual/", "/admin/jobs/job/", "/api/v1/jobs/", "/absent/", "/metrics"])
def test_no_browser_keeps_pages_of_a_logged_in_user(path):
    assert "no-store" in page_client("administrator").get(path)["Cache-Control"]


def test_browsers_do_not_store_pages_without_a_login_either(client):
    assert "no-store" in client.get("/")["Cache-Control"]


def test_a_login_leads_to_the_overview_and_a_logout_needs_a_post(client):
    make_user("viewer", name="vera", password="a long phrase of hers")

    logged_in = client.post("/login/", {"username": "vera", "password": "a long phrase of hers"})

    assert logged_in["Location"] == "/"
    assert client.get("/logout/").status_code == 405
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/").status_code == 302


def test_pages_run_only_scripts_from_their_own_files():
    response = page_client("viewer").get("/")

    policy = response["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert b"style=" not in response.content
    assert b"<script>" not in response.content


def test_all_files_that_pages_load_exist():
    for name in ("css/crawlctl.css", "css/icon.svg", "js/live.js", "js/screen.js"):
        assert finders.find(name)


# --- Buttons -------------------------------------------------------------------------------------

STARTS = {"start", "start-minimal", "reset-seeding"}
_STATES = {
    "at rest": {"phase": Phase.INACTIVE},
    "running": {"phase": Phase.ACTIVE},
    "paused": {"phase": Phase.ACTIVE, "pause": Pause.PAUSED},
    "terminating": {"phase": Phase.SHUTTING_DOWN},
    "being deleted": {"phase": Phase.DELETING},
}


def _buttons(html):
    shown = html
    while "<template>" in shown:
        # Start with the innermost template: templates of rows contain templates of buttons.
        end = shown.index("</template>")
        begin = shown.rindex("<template>", 0, end)
        shown = shown[:begin] + shown[end + len("</template>") :]
    return set(re.findall(r'<button[^>]* name="transition"[^>]* value="([^"]+)"', shown))


@each_row("state", _STATES)
def test_a_job_offers_exactly_the_buttons_of_its_possible_transitions(state):
    job = make_job()
    set_phase(job, **_STATES[state])
    job.refresh_from_db()

    html = page_client("administrator").get(f"/jobs/{job.pk}/").content.decode()

    from jobs.lifecycle.job import allowed_transitions
    from jobs.lifecycle.table import Owner

    assert _buttons(html) == {row.verb for row in allowed_transitions(job.state, owner=Owner.OPERATOR)}


@each_row(
    ("role", "buttons"),
    [("viewer", set()), ("operator", STARTS), ("administrator", STARTS | {"delete"})],
)
def test_buttons_are_only_for_permitted_users(role, buttons):
    job = make_job()

    assert _buttons(page_client(role).get(f"/jobs/{job.pk}/").content.decode()) == buttons


def test_a_button_makes_its_transition_and_leads_back():
    job = make_job()

    response = page_client("operator").post(
        f"/jobs/{job.pk}/transition/", {"transition": "start", "next": "/"}, follow=True
    )

    job.refresh_from_db()
    assert job.phase == Phase.READY_FOR_STARTUP
    assert response.redirect_chain == [("/", 302)]
    assert "manual: Starting up." in response.content.decode()


def test_a_refused_transition_shows_the_reason_and_changes_nothing():
    job = make_job()

    response = page_client("operator").post(f"/jobs/{job.pk}/transition/", {"transition": "pause"}, follow=True)

    job.refresh_from_db()
    assert job.phase == Phase.INACTIVE
    assert "cannot pause while it is “Not running”" in response.content.decode()


@each_row("name", VERBS)
def test_a_get_or_a_role_without_permission_makes_no_transition(name):
    job = make_job()
    viewer = page_client("viewer")

    assert viewer.get(f"/jobs/{job.pk}/transition/", {"transition": name}).status_code == 405
    assert viewer.post(f"/jobs/{job.pk}/transition/", {"transition": name}).status_code == 403
    job.refresh_from_db()
    assert job.phase == Phase.INACTIVE


def test_an_operator_may_not_delete_a_job():
    job = make_job()

    assert page_client("operator").post(f"/jobs/{job.pk}/transition/", {"transition": "delete"}).status_code == 403


def test_a_post_without_a_token_is_refused():
    client = Client(enforce_csrf_checks=True)
    client.force_login(make_user("operator"))
    job = make_job()

    assert client.post(f"/jobs/{job.pk}/transition/", {"transition": "start"}).status_code == 403


@each_row("name", sorted({row.verb for row in TRANSITIONS.values()} - VERBS.keys()))
def test_transitions_made_by_the_crawl_are_no_actions_of_users(name):
    job = make_job()

    assert page_client("administrator").post(f"/jobs/{job.pk}/transition/", {"transition": name}).status_code == 404


def test_a_button_does_not_lead_to_another_site():
    job = make_job()

    response = page_client("operator").post(
        f"/jobs/{job.pk}/transition/", {"transition": "start", "next": "https://elsewhere.test/"}
    )

    assert response["Location"] == f"/jobs/{job.pk}/"


# --- What the pages show -------------------------------------------------------------------------


def make_live_nodes():
    for kind in ("manager", "worker"):
        make_node(f"a {kind}", kind=kind, heartbeat_at=timezone.now())


def test_the_overview_counts_the_documents_of_running_jobs_by_state():
    job = make_job()
    set_phase(job, phase=Phase.ACTIVE)
    count(job, 1200)
    count(job, 34, outcome=Outcome.FAILED, code="404")
    count(job, 5, stage=Stage.PENDING, outcome=0, code="")

    html = page_client("viewer").get("/").content.decode()

    assert 'data-cell="indexed">1,200<' in html
    assert 'data-cell="failed">34<' in html
    assert 'data-cell="waiting">5<' in html


@each_row(
    ("nodes", "headline"),
    [((), "No progress"), (("manager",), "No progress"), (("manager", "worker"), ">Waiting<")],
)
def test_the_overview_explains_why_no_document_is_processed(nodes, headline):
    job = make_job()
    set_phase(job, phase=Phase.ACTIVE)
    count(job, 5, stage=Stage.PENDING, outcome=0, code="")
    for kind in nodes:
        make_node(f"a {kind}", kind=kind, heartbeat_at=timezone.now())

    assert headline in page_client("viewer").get("/").content.decode()


def test_the_overview_does_not_blame_hosts_for_a_job_outside_its_window():
    shut, continuous = make_job("shut"), make_job("continuous")
    set_phase(shut, phase=Phase.ACTIVE, window="outside")
    set_phase(continuous, phase=Phase.ACTIVE)
    for job, stage in ((shut, Stage.PENDING), (continuous, Stage.DONE)):
        count(job, 1, stage=stage, outcome=0, code="")
    LaneState.objects.filter(seed__job=continuous).update(ready_at=timezone.now() + dt.timedelta(seconds=90))
    make_live_nodes()

    html = page_client("viewer").get("/").content.decode()

    assert "No document is due" in html
    assert re.search("No document is due. The next one is read again in 1 min", html)


def test_the_overview_shows_silent_nodes_as_dead():
    job = make_job()
    set_phase(job, phase=Phase.ACTIVE)
    for kind in ("manager", "worker"):
        make_node(f"a {kind}", kind=kind, heartbeat_at=NOON)

    assert "No progress" in page_client("viewer").get("/").content.decode()


@each_row(("documents", "rate"), [(250, "2.5"), (2500, "25"), (4, "0.04")])
def test_a_run_that_has_ended_shows_its_average_rate(documents, rate):
    job = make_job()
    set_phase(job, started_at=NOON, ended_at=NOON + dt.timedelta(seconds=100), run_end="finished")
    count(job, documents)

    html = page_client("viewer").get(f"/jobs/{job.pk}/").content.decode()

    assert f'data-cell="rate">{rate}<' in html
    assert "documents per second, on average" in html


def test_a_job_shows_failing_codes_with_their_meaning_and_hosts():
    job = make_job()
    count(job, 7, outcome=Outcome.FAILED, code="DNS")

    html = page_client("viewer").get(f"/jobs/{job.pk}/").content.decode()

    assert "name could not be resolved" in html
    assert f"/documents/?job={job.pk}&amp;code=DNS" in html


def test_a_job_shows_each_host_with_its_pace_and_back_off():
    job = make_job()
    set_phase(job, phase=Phase.ACTIVE)
    count(job, 3, stage=Stage.PENDING, outcome=0, code="", host="slow.test")
    Bin.objects.filter(name="slow.test").update(interval=7, back_off_until="2100-01-01T00:00Z")
    make_live_nodes()

    html = page_client("viewer").get(f"/jobs/{job.pk}/").content.decode()

    assert "slow.test" in html
    assert "one every 7 s" in html
    assert "asked for fewer requests" in html


def test_the_nodes_show_the_main_manager_and_refused_writes():
    main = make_node("the first", kind="manager")
    MainTerm.objects.update_or_create(scope=main.scope, defaults={"main": main, "term": 3, "since": NOON})
    make_node("a worker", refused_writes=12, capacity=256)

    html = page_client("viewer").get("/nodes/").content.decode()

    assert 'data-cell="role">main<' in html
    assert ">12<" in html
    assert 'data-cell="limit">256<' in html


def test_an_unknown_job_or_document_is_not_found():
    client = page_client("viewer")
    job = make_job()

    assert client.get("/jobs/99999999999999999999/").status_code == 404
    assert client.get("/jobs/4242/").status_code == 404
    assert client.get(f"/documents/{job.pk}/{'0' * 32}/").status_code == 404


def test_the_page_of_a_missing_object_says_which_one_is_missing():
    client = page_client("viewer")

    assert "Job 4242 does not exist." in client.get("/jobs/4242/").content.decode()
    assert "Invalid span. Use one of:" in client.get("/?span=zzz").content.decode()
    assert "This page does not exist" in client.get("/nosuch/").content.decode()
    assert "Job 4242 existiert nicht." in client.get("/jobs/4242/", headers={"accept-language": "de"}).content.decode()


@each_row(
    "address, filters, none_yet, none_matches",
    [
        ("/jobs/", "name=x", "No jobs yet.", "No job matches these filters."),
        ("/runs/grid/", "phase=running", "No jobs yet.", "No job matches these filters."),
        ("/runs/", "end=error", "No run yet.", "No run matches these filters."),
        ("/failures/", "host=a.test", "No document has failed.", "No failures match these filters."),
        ("/traps/", "host=a.test", "No suspects yet.", "No suspects match these filters."),
        ("/hosts/?state=all", "name=a", "No hosts yet.", "No hosts match these filters."),
        ("/documents/?sort=depth", "host=a.test", "No documents yet.", "No documents match these filters."),
        ("/tasks/scheduled/", "group=a", "No task is scheduled.", "No tasks match these filters."),
        ("/tasks/archived/", "group=a", "No task has ended yet", "No tasks match these filters."),
        ("/versions/", "definition=job", "No versions yet.", "No versions match these filters."),
    ],
)
def test_an_empty_list_says_if_nothing_exists_or_nothing_matches(address, filters, none_yet, none_matches):
    client = page_client("viewer")

    whole = client.get(address).content.decode()
    filtered = client.get(f"{address.partition('?')[0]}?{filters}").content.decode()

    assert (none_yet in whole, none_matches in whole) == (True, False)
    assert (none_yet in filtered, none_matches in filtered) == (False, True)


def test_an_empty_list_links_to_the_next_step_if_the_role_permits_it():
    next_step = "Create the first one."

    assert next_step in page_client("administrator").get("/jobs/").content.decode()
    assert next_step not in page_client("viewer").get("/jobs/").content.decode()


def test_crawled_text_cannot_become_markup():
    job = make_job()
    make_document(job, "http://docs.test/%3Cscript%3E<script>alert(1)</script>")

    html = page_client("viewer").get("/documents/").content.decode()

    assert "<script>alert" not in html


# --- Documents -----------------------------------------------------------------------------------


def test_documents_are_listed_a_page_at_a_time_each_once():
    job = make_job()
    every = {document.identifier for document in make_documents(job, 120)}
    client = page_client("viewer")

    seen, address = [], "/documents/"
    while address:
        response = client.get(address)
        seen += [row["identifier"] for row in response.context["rows"]]
        address = response.context["next_query"] and f"/documents/?{response.context['next_query']}"

    assert len(seen) == 120
    assert set(seen) == every


@each_row("state", STATES)
def test_each_state_can_be_a_filter(state):
    assert page_client("viewer").get("/documents/", {"state": state}).status_code == 200


def test_documents_are_filtered_by_job_host_state_and_code():
    job, other = make_job(), make_job("other")
    make_documents(job, 2, host="a.test")
    make_documents(other, 3, host="a.test")
    make_documents(job, 4, host="b.test", outcome=Outcome.FAILED, result_code="404")
    count(job, 4, outcome=Outcome.FAILED, code="404", host="b.test")
    client = page_client("viewer")

    def found(**filters):
        return len(client.get("/documents/", filters).context["rows"])

    assert found(job=job.pk) == 6
    assert found(host="a.test") == 5
    assert found(job=job.pk, host="a.test") == 2
    assert found(state="failed") == 4
    assert found(job=job.pk, code="404") == 4
    assert found(code="500") == 0


def test_a_document_is_found_by_its_address_in_any_spelling():
    make_document(make_job(), "http://docs.test/a")

    response = page_client("viewer").get("/documents/", {"address": "HTTP://docs.test:80/./a#there"})

    assert [row["identifier"] for row in response.context["rows"]] == ["http://docs.test/a"]


@each_row("query", ["after=nonsense", "state=odd", "job=x", "job=99999999999999999999", "host=%00", "address=%00"])
def test_invalid_filters_of_documents_are_answered_with_a_page(query):
    assert page_client("viewer").get(f"/documents/?{query}").status_code == 200


def _story(document):
    return page_client("viewer").get(f"/documents/{document.job_id}/{document.hash.hex}/").content.decode()


def test_the_page_of_an_indexed_document_names_its_outputs():
    document = make_document(make_job(), "http://docs.test/a")
    output = OutputConnection.objects.get(name="index")
    IndexedDocument.objects.create(output=output, hash=document.hash, version="1:abc", indexed_at=NOON)

    assert "The document is in the index of index." in _story(document)


def test_the_page_of_an_excluded_document_shows_the_reason():
    document = make_document(make_job(), "http://docs.test/a", outcome=Outcome.EXCLUDED, result_code="ROBOTS")

    html = _story(document)

    assert "The document is not in the index." in html
    assert "robots.txt does not allow it" in html


def test_the_page_of_a_failed_document_names_the_outputs_that_have_it():
    document = make_document(make_job(), "http://docs.test/a", outcome=Outcome.FAILED, result_code="500")
    output = OutputConnection.objects.get(name="index")
    IndexedDocument.objects.create(output=output, hash=document.hash, version="1:abc", indexed_at=NOON)

    assert "The index keeps the last version" in _story(document)


def test_the_page_of_a_waiting_document_shows_the_reason():
    job = make_job()
    document = make_document(job, "http://docs.test/a", stage=Stage.PENDING, outcome=0, result_code="")

    assert "The document waits. The job is not running. Start the job." in _story(document)


def test_the_page_of_a_document_behind_a_gate_names_the_closing_worker():
    job = make_job()
    set_phase(job, phase=Phase.ACTIVE)
    document = make_document(job, "http://docs.test/a", stage=Stage.PENDING, outcome=0, result_code="")
    gate = Gate.objects.create(name="connection 1: login", key=uuid.uuid4(), node=make_node(name="w1"), closed_at=NOON)
    GatedDocument.objects.create(hash=document.hash, job=job, gate=gate)
    make_live_nodes()

    assert "It waits for connection 1: login, which w1 closed" in _story(document)


def test_the_page_of_a_document_shows_known_and_unknown_links():
    job = make_job()
    document = make_document(job, "http://docs.test/a")
    target = make_document(job, "http://docs.test/b")
    OutLinks.objects.create(hash=document.hash, job=job, targets=[target.hash, uuid.uuid4()])

    html = _story(document)

    assert f"/documents/{job.pk}/{target.hash.hex}/" in html
    assert "unknown to the job" in html


def test_the_page_of_a_document_shows_its_distance_and_carried_data():
    job = make_job()
    Job.objects.filter(pk=job.pk).update(hop_limits={"link": 3, "redirect": 1}, carries=True)
    document = make_document(job, "http://docs.test/a", stage=Stage.HOPCOUNT_REMOVED, outcome=0, result_code="")
    HopCount.objects.create(job=job, hash=document.hash, link_type="link", distance=2, via=uuid.uuid4())
    for colours in (["red", "green"], ["red"]):
        CarryDown.objects.create(job=job, child=document.hash, parent=uuid.uuid4(), carried={"colour": colours})

    html = " ".join(_story(document).split())

    assert "The document is beyond the job" in html
    assert '<dt>Hops of type “link”</dt> <dd class="address"> 2 of at most 3 </dd>' in html
    assert '<dt>Hops of type “redirect”</dt> <dd class="address"> more than 1 </dd>' in html
    assert '<dt>Carry-down data “colour”</dt> <dd class="address"> green, red </dd>' in html


# --- Set-up --------------------------------------------------------------------------------------


def _job_form(**facts):
    output, _ = OutputConnection.objects.get_or_create(name="index", connector="search")
    from jobs.models import RepositoryConnection

    repository, _ = RepositoryConnection.objects.get_or_create(name="the web")
    return {
        "name": "manual",
        "repository": repository.pk,
        "outputs": [output.pk],
        "priority": 5,
        "specification_scope": "domain",
        "kind": "once",
        "hop_mode": "accurate",
        "start_method": "manual",
        "seeds-TOTAL_FORMS": 1,
        "seeds-INITIAL_FORMS": 0,
        "seeds-0-urls": "http://docs.test/\nhttp://docs.test/more",
        **facts,
    }


def test_a_job_with_its_seeds_is_made_in_the_browser():
    response = page_client("administrator").post("/admin/jobs/job/add/", _job_form(specification_include="docs+\nb+"))

    assert response.status_code == 302, response.context["errors"]
    job = Job.objects.get(name="manual")
    assert job.specification == {"scope": "domain", "include": ["docs+", "b+"]}
    assert [seed.urls for seed in job.seeds.all()] == [["http://docs.test/", "http://docs.test/more"]]
    assert job.events.get().message == "was created"


def test_the_form_of_a_new_job_shows_the_thresholds_of_its_guard():
    form = page_client("administrator").get("/admin/jobs/job/add/").context["adminform"].form

    shown = [form[name].value() for name in ("guard_percent", "guard_documents", "guard_seeds")]
    assert shown == [5, 20, True]
    assert form["guard_documents"].label == "Approval threshold (documents removed)"


@each_row(
    ("facts", "sentence"),
    [
        ({"seeds-0-urls": ""}, "This field is required."),
        ({"seeds-0-urls": "gopher://docs.test/"}, "gopher://docs.test/"),
        ({"specification_include": "a("}, "missing"),
        ({"max_documents": "-1"}, "greater than or equal to"),
        ({"recrawl_after": "1 h"}, "Only a continuous job can have this interval"),
        ({"kind": "continuous", "recrawl_after": "soon"}, "is not a duration"),
        ({"start_method": "window_begin"}, "without one, the schedule never starts the job"),
        ({"windows": "hours 25"}, "numbers from 0 to 23"),
        ({"windows": "noon"}, "is not a part of a window"),
        ({"windows": "days of month 31; months 2"}, "never opens"),
        ({"hop_limits": "child 3"}, "no links of this type"),
        ({"hop_limits": "three"}, "Write a link type and a number"),
    ],
)
def test_an_invalid_job_is_refused_with_the_reason_and_not_stored(facts, sentence):
    response = page_client("administrator").post("/admin/jobs/job/add/", _job_form(**facts))

    assert response.status_code == 200
    assert sentence in response.content.decode()
    assert not Job.objects.exists()


def test_a_schedule_and_intervals_are_set_in_the_browser_and_shown_again():
    client = page_client("administrator")
    fields = {"kind": "continuous", "recrawl_after": "1 d 12 h", "reseed_after": "90 min", "hop_limits": "link 3"}
    windows = "days of week 1-5; hours 22; open 8 h; zone Europe/Berlin\ndays of week 6; hours 3; minimal"

    client.post("/admin/jobs/job/add/", _job_form(start_method="window_begin", windows=windows, **fields))

    job = Job.objects.get(name="manual")
    assert (job.recrawl_after, job.reseed_after) == (dt.timedelta(hours=36), dt.timedelta(minutes=90))
    assert (job.hop_limits, job.windows.count(), job.start_method) == ({"link": 3}, 2, "window_begin")
    html = client.get(f"/admin/jobs/job/{job.pk}/change/").content.decode()
    assert windows in html
    assert "1 d 12 h" in html
    assert "1 h 30 min" in html
    page = client.get(f"/jobs/{job.pk}/").content.decode()
    for shown in ("continuous", "when a window opens", "days of week 6; hours 3; minimal", "1 d 12 h"):
        assert shown in page


def test_a_job_is_changed_in_the_browser():
    job = make_job()
    seed = job.seeds.get()
    changed = _job_form(
        name="handbook",
        max_documents=10,
        **{"seeds-INITIAL_FORMS": 1, "seeds-0-id": seed.pk, "seeds-0-job": job.pk, "seeds-0-urls": "http://docs.test/"},
    )

    response = page_client("administrator").post(f"/admin/jobs/job/{job.pk}/change/", changed)

    job.refresh_from_db()
    assert response.status_code == 302
    assert (job.name, job.max_documents, job.specification) == ("handbook", 10, {"scope": "domain"})
    assert job.seeds.get().pk == seed.pk


def test_a_job_with_more_seeds_than_its_form_is_changed_and_keeps_them():
    job = make_job()
    Seed.objects.bulk_create(Seed(job=job, urls=[f"http://docs.test/{number}"]) for number in range(50))
    client, address = page_client("administrator"), f"/admin/jobs/job/{job.pk}/change/"

    shown = client.get(address)
    saved = client.post(address, _job_form(name="handbook"))
    refused = client.post(address, _job_form(specification_include="a("))

    assert "The job has too many seeds for this form" in shown.content.decode()
    assert "seeds-0-urls" not in shown.content.decode()
    assert saved.status_code == 302, saved.context["errors"]
    assert "missing )" in refused.content.decode()
    job.refresh_from_db()
    assert (job.name, job.seeds.filter(removed_at=None).count()) == ("handbook", 51)


def test_a_filter_by_job_offers_the_newest_jobs_and_the_chosen_job():
    old = make_job("the oldest")
    Job.objects.bulk_create(Job(name=f"job {number}", repository=old.repository) for number in range(101))
    client = page_client("viewer")

    newest = client.get("/documents/").content.decode()
    chosen = client.get("/documents/", {"job": old.pk}).content.decode()

    assert "Only the newest 100 are listed. For another one, begin at its own page." in newest
    assert ">job 100</option>" in newest
    assert ">the oldest</option>" not in newest
    assert f'<option value="{old.pk}" selected>the oldest</option>' in chosen


def test_the_page_of_a_job_shows_only_the_first_of_many_seeds():
    job = make_job(urls=[f"http://docs.test/{number}" for number in range(9)])
    Seed.objects.bulk_create(Seed(job=job, urls=[f"http://more.test/{number}"]) for number in range(20))

    html = page_client("viewer").get(f"/jobs/{job.pk}/").content.decode()

    assert "9 addresses." in html
    assert "http://docs.test/4" in html
    assert "http://docs.test/5" not in html
    assert "This job has more seeds." in html
    assert "http://more.test/19" not in html


def test_a_connection_names_only_the_first_of_many_jobs_that_use_it():
    job = make_job()
    Job.objects.bulk_create(Job(name=f"job {number}", repository=job.repository) for number in range(9))

    html = page_client("administrator").get("/admin/jobs/repositoryconnection/").content.decode()

    assert re.search(r"job \d, others", html)


def test_the_browser_edits_seeds_priority_and_schedule_of_a_running_job():
    client = page_client("administrator")
    limits = {"kind": "continuous", "recrawl_after": "1 h", "hop_limits": "link 3", "specification_include": "docs"}
    client.post("/admin/jobs/job/add/", _job_form(**limits))
    job = Job.objects.get()
    set_phase(job, phase=Phase.ACTIVE)
    address = f"/admin/jobs/job/{job.pk}/change/"
    wanted = {"priority": 2, "windows": "hours 22; open 8 h", "max_documents": 5, "specification_scope": "any"}
    seed = {"seeds-INITIAL_FORMS": 1, "seeds-0-id": job.seeds.get().pk, "seeds-0-job": job.pk}

    shown = client.get(address)
    saved = client.post(address, _job_form(**wanted, **seed, **{"seeds-0-urls": "http://docs.test/new"}))

    assert "The job is running. Only addresses, priority and schedule can be changed now." in shown.content.decode()
    assert saved.status_code == 302, saved.context["errors"]
    job.refresh_from_db()
    assert (job.priority, job.windows.count(), job.seeds.get().urls) == (2, 1, ["http://docs.test/new"])
    # The browser does not send disabled fields, so their values stay.
    assert (job.max_documents, job.recrawl_after, job.hop_limits) == (None, dt.timedelta(hours=1), {"link": 3})
    assert job.specification == {"scope": "domain", "include": ["docs"]}
    assert client.get(address).status_code == 200


@each_row(("role", "phase", "refused"), [("administrator", Phase.SHUTTING_DOWN, 302), ("viewer", Phase.INACTIVE, 403)])
def test_a_user_who_cannot_change_a_job_is_sent_to_its_page(role, phase, refused):
    job = make_job()
    set_phase(job, phase=phase)
    client, address = page_client(role), f"/admin/jobs/job/{job.pk}/change/"

    assert client.get(address).headers["Location"] == f"/jobs/{job.pk}/"
    saved = client.post(address, _job_form())
    assert (saved.status_code, saved.headers.get("Location", f"/jobs/{job.pk}/")) == (refused, f"/jobs/{job.pk}/")


@each_row("role", ["operator", "administrator"])
def test_jobs_are_started_from_their_list(role):
    job = make_job()

    page_client(role).post("/admin/jobs/job/", {"action": "start", "_selected_action": [job.pk]})

    job.refresh_from_db()
    assert job.phase == Phase.READY_FOR_STARTUP


def test_the_page_of_nodes_links_to_the_pages_of_a_manager():
    manager = make_node("manager-1", kind=Node.Kind.MANAGER, address="http://10.0.0.5:8001")
    worker = make_node("worker-1")
    client = page_client("viewer")

    page = client.get("/nodes/").content.decode()
    led = client.get(f"/nodes/{manager.pk}/pages/")

    assert "http://10.0.0.5:8001" in page
    assert (led.status_code, led["Location"]) == (302, "http://10.0.0.5:8001")
    assert client.get(f"/nodes/{worker.pk}/pages/").status_code == 404
