"""The form of a new job makes a job from three fields: address, pace and times."""

import datetime as dt
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from jobs.lifecycle.schedule import Window
from jobs.models import Job, OutputConnection, RepositoryConnection, ThrottlePolicy
from jobs.verbs import deny_list
from nodes.database.clock import read_clock
from tests.integration.test_pages import page_client
from tests.support.factories import make_job, make_policy
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

NEW = "/admin/jobs/job/add/"
# Values that a browser sends in addition to the three fields.
SENT = {
    "built_for": "web",
    "priority": 5,
    "kind": "once",
    "hop_mode": "accurate",
    "start_method": "manual",
    "guard_documents": 20,
    "seeds-TOTAL_FORMS": 0,
    "seeds-INITIAL_FORMS": 0,
}


def make(client=None, **fields):
    return (client or page_client("administrator")).post(NEW, SENT | fields)


def errors(answer):
    return {name: list(problems) for name, problems in answer.context["adminform"].form.errors.items()}


def test_an_address_alone_makes_a_job_with_all_connections_that_it_needs():
    answer = make(addresses="example.org")

    job = Job.objects.get()
    assert answer.url == f"/jobs/{job.pk}/"
    assert (job.name, job.start_method) == ("example.org", "manual")
    assert [(seed.urls, seed.policy) for seed in job.seeds.all()] == [(["https://example.org"], None)]
    assert (job.repository.connector, [output.connector for output in job.outputs.all()]) == ("web", ["search"])


def test_a_second_job_shares_the_connections_and_gets_another_name():
    client = page_client("administrator")
    make(client, addresses="example.org")
    repository, output = RepositoryConnection.objects.get(), OutputConnection.objects.get()

    make(client, addresses="example.org", repository=repository.pk, outputs=[output.pk])

    assert list(Job.objects.values_list("name", flat=True)) == ["example.org", "example.org 2"]
    assert (RepositoryConnection.objects.count(), OutputConnection.objects.count()) == (1, 1)


def test_a_pace_is_a_policy_that_later_jobs_share():
    client = page_client("administrator")
    make(client, addresses="a.example", pace="slow")
    connections = {"repository": RepositoryConnection.objects.get().pk, "outputs": [OutputConnection.objects.get().pk]}
    make(client, addresses="b.example", pace="slow", **connections)

    policy = ThrottlePolicy.objects.get()
    assert (policy.open_requests, policy.min_gap) == (1, 5.0)
    assert policy.seeds.count() == 2


def test_a_stored_policy_is_chosen_as_the_pace():
    policy = make_policy("gently")

    make(addresses="a.example", pace=f"policy-{policy.pk}")

    assert Job.objects.get().seeds.get().policy == policy


@each_row(
    ("times", "window"),
    [
        ({"every": "hour", "at": "10:20"}, Window(minutes=(20,))),
        (
            {"every": "day", "at": "22:30", "zone": "Europe/Berlin"},
            Window(hours=(22,), minutes=(30,), time_zone="Europe/Berlin"),
        ),
        ({"every": "week", "at": "02:00", "weekday": "7"}, Window(days_of_week=(7,), hours=(2,), minutes=(0,))),
    ],
)
def test_times_in_words_become_a_window(times, window):
    make(addresses="a.example", **times)

    job = Job.objects.get()
    assert [one.times for one in job.windows.all()] == [window]
    assert job.start_method == "window_begin"


@each_row(
    ("fields", "name", "problem"),
    [
        ({}, "addresses", "This field is required."),
        ({"addresses": "a.example\0"}, "addresses", "Null characters are not allowed."),
        ({"addresses": "a.example", "specification_include": "a\0"}, "specification_include", "Null characters"),
        ({"addresses": "a.example", "every": "day", "zone": "Berlin"}, "zone", "is not a time zone"),
        ({"addresses": "a.example", "every": "day", "at": "25:00"}, "at", "Enter a valid time"),
        ({"addresses": "a.example", "pace": "policy-99999"}, "pace", "Select a valid choice"),
        ({"addresses": "a.example", "specification_include": "a("}, "specification_include", "missing"),
    ],
)
def test_an_error_is_shown_at_its_field_and_nothing_is_stored(fields, name, problem):
    answer = make(**fields)

    assert problem in " ".join(errors(answer)[name])
    assert not Job.objects.exists()
    assert not RepositoryConnection.objects.exists()


def messages_of(client, answer):
    return [str(message) for message in client.get(answer.url).context["messages"]]


def test_saving_warns_about_private_addresses_and_useless_windows():
    client = page_client("administrator")
    answer = make(client, addresses="http://127.0.0.1:8000/\nhttp://localhost/", every="windows", windows="hours 3")

    messages = " ".join(messages_of(client, answer))
    assert "127.0.0.1, localhost: private addresses" in messages
    assert "The windows have no effect" in messages


def test_warnings_are_in_the_language_of_the_page():
    client = page_client("administrator")
    client.defaults["HTTP_ACCEPT_LANGUAGE"] = "de"
    answer = make(client, addresses="http://127.0.0.1:8000/", every="windows", windows="hours 3")

    messages = " ".join(messages_of(client, answer))
    assert "127.0.0.1: private Adressen" in messages
    assert "Die Zeitfenster haben keine Wirkung" in messages


def test_private_addresses_get_no_warning_if_private_networks_are_allowed():
    client = page_client("administrator")
    answer = make(client, addresses="http://127.0.0.1:8000/", specification_allow_private_networks="on")

    assert "private" not in " ".join(messages_of(client, answer))


def test_the_next_starts_are_given_in_words():
    answer = page_client("administrator").get(f"{NEW.replace('add', 'starts')}?every=day&at=22:30&zone=Europe/Berlin")

    starts = answer.json()["starts"]
    assert len(starts) == 5
    assert all(start.endswith("22:30 Europe/Berlin") for start in starts)


def test_only_users_who_may_add_a_job_see_the_form_and_its_answers():
    operator = page_client("operator")

    assert operator.get(NEW).status_code == 403
    assert operator.get("/admin/jobs/job/starts/").status_code == 403
    assert operator.post("/admin/jobs/job/check/", {"addresses": "a.example"}).status_code == 403
    assert page_client("administrator").get("/admin/jobs/job/check/").status_code == 405


# --- Stages --------------------------------------------------------------------------------------


def test_stages_are_added_to_a_new_job_before_it_is_stored():
    client = page_client("administrator")

    added = make(client, addresses="example.org", count=0, add_stage="1", add_kind="allowed")

    assert not Job.objects.exists()
    shown = added.context["adminform"].form
    assert (shown.errors, shown["addresses"].value()) == ({}, "example.org")
    page = added.content.decode()
    assert 'name="s0-setting_max_bytes"' in page
    assert '<details class="more-fields"\n           open>' in page
    stage = {"s0-kind": "allowed", "s0-was": "allowed", "s0-name": "short", "s0-input": "source"}
    make(client, addresses="example.org", count=1, **stage, **{"s0-setting_max_bytes": "1000"})
    assert Job.objects.get().pipeline == {
        "stages": [{"name": "short", "kind": "allowed", "input": "source", "settings": {"max_bytes": 1000}}],
        "outputs": {},
    }


def test_an_error_of_a_stage_is_shown_at_its_field_and_nothing_is_stored():
    stage = {"s0-kind": "html", "s0-name": "a", "s0-input": "source", "s0-setting_text": "p["}

    answer = make(addresses="example.org", count=1, **stage)

    assert not Job.objects.exists()
    assert errors(answer) == {"__all__": ["A stage of the pipeline has an error. Check the stages below."]}
    assert "p[" in str(answer.context["adminform"].form.stages.stages[0].errors["setting_text"])


# --- Duplicates ----------------------------------------------------------------------------------


def test_the_form_of_a_duplicate_has_the_values_of_its_job():
    windows = [Window(hours=(3,))]
    job = make_job("docs", windows=windows, start_method="window_begin", max_documents=7)
    Job.objects.filter(pk=job.pk).update(specification={"scope": "domain", "exclude": ["/private/"]})
    other = OutputConnection.objects.create(name="other", connector="null")
    job.outputs.add(other)
    stages = [{"name": "label", "kind": "metadata", "input": "source", "settings": {"set": ["site = docs"]}}]
    Job.objects.filter(pk=job.pk).update(pipeline={"stages": stages, "outputs": {str(other.pk): "source"}})

    form = page_client("administrator").get(f"{NEW}?like={job.pk}").context["adminform"].form

    assert form["name"].value() == "docs 2"
    assert form["addresses"].value() == "\n".join(job.seeds.get().urls)
    assert (form["specification_scope"].value(), form["specification_exclude"].value()) == ("domain", "/private/")
    assert (form["max_documents"].value(), form["windows"].value(), form["every"].value()) == (7, "hours 3", "windows")
    assert [(stage.kind_name, stage["setting_set"].value()) for stage in form.stages.stages] == [
        ("metadata", "site = docs")
    ]
    assert form.stages.ends[f"o{other.pk}"].value() == "source"


# --- The check of the address --------------------------------------------------------------------


class _Site(BaseHTTPRequestHandler):
    pages = {
        "/": (
            200,
            "text/html",
            "<title>Hello</title><a href='/a'>a</a><a href='/b'>b</a><a href='http://other.example/'>c</a>",
        ),
        "/robots.txt": (200, "text/plain", "User-agent: *\nDisallow: /private/\nCrawl-delay: 2\n"),
        "/private/": (200, "text/html", "secret"),
        "/moved": (301, "text/html", ""),
        "/sitemap.xml": (200, "application/xml", "<?xml version='1.0'?><urlset></urlset>"),
    }

    def do_GET(self):
        self.server.asked.append(self.path)
        status, kind, body = self.pages.get(self.path, (404, "text/plain", "no"))
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status == 301:
            self.send_header("Location", "/")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


@contextmanager
def site():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Site)
    server.asked = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def check(address, *, client=None, **fields):
    allowed = {"specification_allow_private_networks": "on"}
    client = client or page_client("administrator")
    answer = client.post(NEW.replace("add", "check"), {"addresses": address, **allowed, **fields})
    assert answer.status_code == 200
    return dict(answer.json()["lines"])


def test_the_check_shows_the_answer_and_the_links_that_a_job_would_follow(monkeypatch):
    monkeypatch.setattr("jobs.connectors.repository.web.seed_check.GAP", 0.0)
    with site() as (server, address):
        results = check(f"{address}/")

    assert results["Answer"].startswith("200 OK text/html after ")
    assert results["Title"] == "Hello"
    assert results["Links"] == "2 links in scope, of 3 on the page"
    assert results["robots.txt"] == "allows the address, one request every 2 s"
    assert results["Sitemap"] == f"{address}/sitemap.xml"
    assert server.asked == ["/robots.txt", "/", "/sitemap.xml"]


def test_the_check_reads_no_page_that_robots_txt_disallows():
    with site() as (server, address):
        results = check(f"{address}/private/")

    assert results["robots.txt"].startswith("disallows the address")
    assert server.asked == ["/robots.txt"]


def test_the_check_requests_a_private_address_only_if_the_job_may():
    with site() as (server, address):
        results = check(f"{address}/", specification_allow_private_networks="")

    assert results["Answer"].startswith("ADDRESS_FORBIDDEN")
    assert server.asked == []


def test_the_check_requests_no_denied_host_and_names_invalid_addresses():
    client = page_client("administrator")
    with site() as (server, address):
        deny_list.deny("127.0.0.1", reason="no", confirm=True, made_by="ann", now=read_clock())

        assert "is on the deny list" in check(f"{address}/", client=client)["Not checked"]

    assert "Not checked" in check("", client=client)
    assert "Not checked" in check("gopher://a.example/", client=client)
    assert server.asked == []


def test_the_check_ends_at_its_deadline(monkeypatch):
    monkeypatch.setattr("jobs.connectors.repository.web.seed_check.DEADLINE", 0.3)
    begun = dt.datetime.now(dt.UTC)
    with site() as (_server, address):
        results = check(f"{address}/")

    assert results["Answer"].startswith("DEADLINE")
    assert dt.datetime.now(dt.UTC) - begun < dt.timedelta(seconds=5)
