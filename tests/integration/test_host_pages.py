"""Pages of hosts show their live state, and only administrators change hosts there."""

import datetime as dt
import re

import pytest
from django.test import Client
from django.utils import timezone

from jobs.connectors.repository.web.stored_robots import KEPT, write_robots
from jobs.lifecycle.job import Phase
from jobs.models import Activity, Bin, BinState, CounterDelta, Job, QueueItem, ThrottlePolicy
from jobs.queries.hosts.lines import read_host_statuses
from jobs.queries.hosts.page import read_host_page
from jobs.queries.hosts.robots import read_robots_of_host
from jobs.ui.hosts_screen import host_row
from jobs.ui.topics import host_topic, is_topic, read_screen
from nodes.models import NodeEvent
from nodes.web.topics import TopicUnknown
from tests.support.api import client_of, make_user, set_phase
from tests.support.cluster import NOON, register_node, seconds
from tests.support.factories import make_bin, make_documents, make_lane, make_policy, make_rule, make_running_job
from tests.support.tables import each_row


def visitor(role="viewer"):
    client = Client()
    client.force_login(make_user(role, name=f"a {role}"))
    return client


def text_of(answer):
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode()))


@pytest.fixture
def busy(connection, manager):
    """Return a host of a running job, with waiting documents and a policy that allows one start every 4 s."""
    running = make_running_job(manager, policy=make_policy("newspapers", min_gap=4.0), name="daily")
    lane = make_lane(running.seed, "news.example")
    make_documents(lane, 7)
    CounterDelta.objects.create(job_id=running.job.pk, lane_id=lane.pk, run_no=1, measure="stage", stage=0, amount=7)
    return lane.bin


def screen(bin_):
    return read_screen(host_topic(bin_.pk))


# --- What the pages show ------------------------------------------------------------------------------


def test_waiting_hosts_are_listed_with_their_limits(connection, busy):
    register_node(connection, "worker")
    BinState.objects.filter(bin=busy).update(last_start_at=NOON + seconds(86))

    (row,) = read_screen("hosts")["hosts"]

    assert (row["name"], row["waiting"]) == ("news.example", "7")
    assert (row["allowed"], row["allowed_in_brief"]) == ("8 at a time, one every 4 s", "8 at once · 1 per 4 s")
    assert (row["cause"], row["says"]) == ("held by policy", "At most one start every 4 s: policy “newspapers”.")
    assert re.fullmatch(r"Since [-: 0-9]+ UTC\.", row["since"])
    shown = text_of(visitor().get("/hosts/"))
    assert all(text in shown for text in ("news.example", row["since"], "Times are UTC."))


def test_the_list_of_hosts_gets_live_updates_only_for_the_busiest_hosts(busy):
    assert b'data-topic="hosts"' in visitor().get("/hosts/").content

    found = visitor("operator").get("/hosts/?name=news")

    assert b"data-topic" not in found.content
    assert "news.example" in text_of(found)


def test_a_row_of_the_list_shows_the_rate_of_its_host_between_two_samples(busy):
    for starts in (1, 11, 21):
        BinState.objects.filter(bin=busy).update(starts=starts, open_turns=1, closed_at=NOON - seconds(21 - starts))
        (line,) = read_host_statuses([busy.pk], now=NOON)

    points = host_row(line, now=NOON)["spark"].split()

    assert len(points) >= 4
    assert {point.partition(",")[2] for point in points} == {"1"}


def test_the_next_page_by_name_begins_after_the_last_host(connection):
    for number in range(60):
        make_bin(f"h{number:02}.example")
    client = visitor()

    first = client.get("/hosts/?state=all")
    following = re.search(r'href="(\?[^"]*after=[^"]*)"', first.content.decode())[1].replace("&amp;", "&")
    second = client.get(f"/hosts/{following}")

    assert "h49.example" in text_of(first)
    assert "h50.example" not in text_of(first)
    assert re.findall(r"h\d\d\.example", text_of(second))[::1][0] == "h50.example"
    assert "after=" not in second.content.decode()


@pytest.mark.parametrize("query", ["?state=nonsense", "?after=nonsense", "?after=-1", "?after=99999999999999999999"])
def test_a_list_of_hosts_that_cannot_be_read_gives_the_reason(busy, query):
    answer = visitor().get(f"/hosts/{query}")

    assert answer.status_code == 200
    assert re.search(r'<small data-tone="failed">|class="message warning"', answer.content.decode())


def test_a_host_shows_the_source_and_the_start_of_each_limit(connection, busy):
    everywhere = make_policy("for all", applies_everywhere=True, open_requests=500)
    make_rule(everywhere, "*.example", open_requests=3)
    Bin.objects.filter(pk=busy.pk).update(interval=9.0)

    limits = {row["what"]: row for row in screen(busy)["limits"]}

    assert (limits["Open requests"]["most"], limits["Open requests"]["by"]) == ("3", "rule 1 of policy “for all”")
    assert (limits["Starts per second"]["most"], limits["Starts per second"]["by"]) == (
        "one every 9 s",
        "its robots.txt",
    )
    assert limits["Open requests"]["since"]
    assert limits["Bytes per second"]["most"] == "no limit"


def test_a_chart_shows_the_allowed_rate_only_while_jobs_request_the_host(busy):
    while_it_runs = screen(busy)["picture"]
    set_phase(Job.objects.get(), phase=Phase.INACTIVE)

    assert "allowed" in while_it_runs
    # The chart covers the time when the jobs ran, but the limits of that time are no longer known.
    assert "allowed" not in screen(busy)["picture"]


def test_a_host_lists_its_waiting_lanes_in_the_order_of_service(connection, manager, busy):
    other = make_running_job(manager, name="urgent", policy=make_policy(), priority=1)
    make_documents(make_lane(other.seed, "news.example"), 3)
    CounterDelta.objects.create(
        job_id=other.job.pk, lane_id=other.seed.lanes.get().pk, run_no=1, measure="stage", stage=0, amount=3
    )

    lanes = screen(busy)["lanes"]

    assert [(row["job"], row["waiting"], row["owner"]) for row in lanes] == [
        ("urgent", "3", manager.name),
        ("daily", "7", manager.name),
    ]


def test_a_host_shows_its_latest_refusals(connection, busy):
    (now,) = connection.execute("SELECT clock_timestamp()").fetchone()
    job = busy.lanes.get().seed.job
    for address, code in (
        ("http://news.example/a", "429"),
        ("https://news.example/b", "503"),
        ("http://news.example/c", "200"),
        ("http://other.example/d", "429"),
    ):
        Activity.objects.create(
            started_at=now, job=job, repository=job.repository, activity="fetch", entity=address, result_code=code
        )

    refusals = read_host_page(busy.pk, now=now).answers.refusals

    assert {(one.address, one.code) for one in refusals} == {
        ("http://news.example/a", "429"),
        ("https://news.example/b", "503"),
    }


def test_a_host_shows_how_fast_it_answered_and_its_errors(connection, busy):
    (now,) = connection.execute("SELECT clock_timestamp()").fetchone()
    job = busy.lanes.get().seed.job
    answers = [(f"http://news.example/{n}", "200", n / 10) for n in range(1, 10)]
    answers += [("http://news.example/x", "500", 20.0), ("http://other.example/", "500", 90.0)]
    Activity.objects.bulk_create(
        Activity(
            started_at=now - dt.timedelta(minutes=1), job=job, repository=job.repository,
            activity="fetch", entity=address, result_code=code, seconds=seconds,
        )
        for address, code, seconds in answers
    )  # fmt: skip

    of_api = client_of("viewer").get(f"/api/v1/hosts/{busy.pk}/").json()["answers"]
    cells = screen(busy)

    assert (of_api["count"], of_api["failed"], of_api["by_code"]) == (10, 1, {"200": 9, "500": 1})
    assert of_api["seconds_p50"] == pytest.approx(0.55)
    assert of_api["seconds_p95"] == pytest.approx(11.405)
    assert (cells["half_within"], cells["most_within"], cells["errors"]) == ("550 ms", "11.4 s", "10 %")
    assert [(row["code"], row["count"]) for row in cells["codes"]] == [("200", "9"), ("500", "1")]


def test_a_host_without_answers_shows_no_answer_times(busy):
    cells = screen(busy)

    assert (cells["answers_since"], cells["half_within"], cells["errors"], cells["codes"]) == ("", "—", "—", [])


def test_parents_of_hosts_and_deleted_hosts_have_no_page(connection, busy):
    address = make_bin("192.0.2.1", namespace=Bin.ADDRESS)

    assert visitor().get(f"/hosts/{address.pk}/").status_code == 404
    assert is_topic(host_topic(busy.pk))
    with pytest.raises(TopicUnknown):
        read_screen(host_topic(address.pk))


def test_names_of_hosts_are_escaped(connection):
    bin_ = make_bin("<script>alert(1)</script>")

    assert b"<script>alert" not in visitor().get(f"/hosts/{bin_.pk}/").content


# --- Stops --------------------------------------------------------------------------------------------


def test_an_administrator_stops_a_host_with_a_reason_and_releases_it(busy):
    client = visitor("administrator")
    assert "outputs keep their content" in text_of(client.get(f"/hosts/{busy.pk}/stop/"))

    client.post(f"/hosts/{busy.pk}/stop/", {"reason": "they called"})

    shown = screen(busy)
    assert (shown["cause"], shown["tone"]) == ("stopped", "denied")
    assert shown["says"].startswith("a administrator stopped ")
    assert shown["says"].endswith(": they called.")
    assert shown["limits"][0]["by"] == "a administrator"
    assert "Release host" in text_of(client.get(f"/hosts/{busy.pk}/"))
    client.post(f"/hosts/{busy.pk}/release/")
    assert screen(busy)["cause"] != "stopped"
    assert [event.message for event in NodeEvent.objects.filter(kind="asked").order_by("id")] == [
        "a administrator stopped news.example: they called",
        "a administrator released news.example",
    ]


def test_a_host_shows_its_refusals_even_after_its_job_has_ended(busy):
    job = Job.objects.get()
    when = timezone.now() - seconds(60)
    facts = {"job": job, "repository": job.repository, "activity": "fetch", "result_code": "429"}
    Activity.objects.create(started_at=when, entity="http://news.example/", **facts)
    Bin.objects.update(back_off_level=1, back_off_until=when)

    Job.objects.update(phase="inactive")

    assert [row["code"] for row in screen(busy)["refusals"]] == ["429"]
    assert screen(busy)["back_off"] == "ended, level 1"


def test_an_administrator_ends_a_back_off_after_reading_its_effect(busy):
    client = visitor("administrator")
    Bin.objects.update(back_off_level=3, back_off_until="2100-01-01T00:00Z", backing_off_since="2026-01-01T00:00Z")
    assert "End back-off" in text_of(client.get(f"/hosts/{busy.pk}/"))
    assert "the back-off restarts at level 1" in text_of(client.get(f"/hosts/{busy.pk}/end-back-off/"))
    assert screen(busy)["cause"] == "backing off"

    client.post(f"/hosts/{busy.pk}/end-back-off/")

    assert screen(busy)["cause"] != "backing off"
    assert Bin.objects.filter(pk=busy.pk, back_off_level=0, back_off_until=None, backing_off_since=None).exists()
    assert NodeEvent.objects.get(kind="asked").message == (
        "a administrator ended the back-off of news.example (level 3, until 2100-01-01 00:00:00 UTC)"
    )


@pytest.mark.parametrize("method", ["get", "post"])
def test_ending_a_back_off_that_is_over_is_refused_with_a_message(busy, method):
    answer = getattr(visitor("administrator"), method)(f"/hosts/{busy.pk}/end-back-off/", follow=True)

    assert "news.example is not backing off." in text_of(answer)
    assert "End back-off" not in text_of(answer)
    assert not NodeEvent.objects.filter(kind="asked").exists()


def test_a_host_is_not_stopped_without_a_reason(busy):
    answer = visitor("administrator").post(f"/hosts/{busy.pk}/stop/", {"reason": "  "})

    assert "Write a reason" in text_of(answer)
    assert Bin.objects.get().stopped_at is None


@each_row(
    ("typed", "name"),
    [
        ("New.Example", "new.example"),
        ("https://new.example:8443/a?b", "new.example:8443"),
        ("bücher.example", "xn--bcher-kva.example"),
    ],
)
def test_a_host_that_no_crawl_has_reached_is_stopped_by_its_name(db, typed, name):
    client, form = visitor("operator"), {"pattern": typed, "reason": "never", "stop": ""}
    assert "Stop or deny it anyway" in text_of(client.post("/hosts/denied/", form))
    assert not Bin.objects.exists()

    client.post("/hosts/denied/", {**form, "confirm": "on"})

    stopped = Bin.objects.get()
    assert (stopped.namespace, stopped.name, stopped.stopped_why, stopped.is_known) == ("web", name, "never", False)


@each_row("typed", ["", "a b", "ftp://a.example/", "http://", "a.example:99999"])
def test_an_address_without_a_host_is_refused(db, typed):
    answer = visitor("administrator").post("/hosts/denied/", {"pattern": typed, "reason": "never", "stop": ""})

    assert "Write the name of a host" in text_of(answer)
    assert not Bin.objects.exists()


# --- robots.txt ---------------------------------------------------------------------------------------


def read_robots(connection, text, kind="rules", origin="http://news.example"):
    write_robots(connection, answers={origin: {"kind": kind, "text": text}}, lifetime=dt.timedelta(days=1))


def test_a_host_shows_its_robots_txt_and_the_changes(connection, busy):
    assert "robots.txt" not in text_of(visitor("operator").get(f"/hosts/{busy.pk}/"))

    read_robots(connection, "User-agent: *\nDisallow: /old/\n")
    read_robots(connection, "User-agent: *\nDisallow: /new/\n")
    read_robots(connection, "", kind="allow_all", origin="https://news.example")

    page = text_of(visitor().get(f"/hosts/{busy.pk}/"))
    assert re.search(r"http://news.example/robots.txt Read (just now|\d+ s ago) \([:\d]+ UTC\)", page)
    assert "Text as read User-agent: * Disallow: /new/" in page
    assert "-Disallow: /old/ +Disallow: /new/" in page
    assert re.search(r"https://news.example/robots.txt Read [^)]+\). It has no rules, so it allows every address", page)


def test_a_few_different_versions_of_a_robots_txt_are_kept(connection):
    for number in range(KEPT + 3):
        for _ in range(2):
            read_robots(connection, f"User-agent: *\nDisallow: /{number}/\n")

    (found,) = read_robots_of_host("news.example")

    assert found.text.lines[1] == f"Disallow: /{KEPT + 2}/"
    assert [change.difference[-1] for change in found.changes] == [
        f"+Disallow: /{number}/" for number in range(KEPT + 2, 2, -1)
    ]


def test_a_long_robots_txt_is_cut(connection):
    read_robots(connection, "User-agent: *\n" + "Disallow: /x/\n" * 40_000)
    read_robots(connection, "User-agent: *\nDisallow: /" + "y" * 400_000)

    (found,) = read_robots_of_host("news.example")

    assert found.text.is_cut
    assert len("".join(found.text.lines)) <= 20_000
    assert len(found.changes[0].difference) <= 310


# --- The deny list ------------------------------------------------------------------------------------


def test_a_pattern_of_hosts_is_checked_denied_and_allowed_again(connection, busy):
    client = visitor("administrator")
    assert "Matching known hosts: 1. news.example" in text_of(
        client.post("/hosts/denied/", {"pattern": "*.example", "look": ""})
    )
    assert not ThrottlePolicy.objects.filter(applies_everywhere=True).exists()

    client.post("/hosts/denied/", {"pattern": "*.example", "reason": "they asked", "confirm": "on", "deny": ""})
    client.post("/hosts/denied/", {"pattern": "*.test", "reason": "they asked", "confirm": "on", "deny": ""})

    listed = ThrottlePolicy.objects.get(name="Deny list")
    assert [rule.pattern for rule in listed.rules.all()] == ["*.example", "*.example:*", "*.test", "*.test:*"]
    assert screen(busy)["says"] == f"Nothing is fetched from {busy.name}: rule 1 of policy “Deny list” denies it."
    client.post("/hosts/denied/", {"pattern": "*.example", "policy": listed.pk, "allow": ""})
    client.post("/hosts/denied/", {"pattern": "*.test", "policy": listed.pk, "allow": ""})
    assert screen(busy)["cause"] != "denied"


def test_a_host_is_denied_and_allowed_by_its_name_with_umlauts(connection):
    host = make_bin("www.xn--bcher-kva.example")
    client = visitor("administrator")
    assert "Matching known hosts: 1." in text_of(
        client.post("/hosts/denied/", {"pattern": "*.bücher.example", "look": ""})
    )

    client.post("/hosts/denied/", {"pattern": "*.BÜCHER.example", "reason": "they asked", "confirm": "on", "deny": ""})
    assert screen(host)["cause"] == "denied"

    listed = ThrottlePolicy.objects.get(name="Deny list")
    client.post("/hosts/denied/", {"pattern": "*.bücher.Example", "policy": listed.pk, "allow": ""})
    assert screen(host)["cause"] != "denied"


def test_the_deny_list_shows_cluster_wide_rules_of_other_policies(connection):
    make_rule(make_policy("house rules", applies_everywhere=True), "*.internal", denies=True)
    make_rule(make_policy("of one job"), "*.shop", denies=True)

    shown = text_of(visitor().get("/hosts/denied/"))

    assert "*.internal" in shown
    assert "house rules, rule 1" in shown
    assert "*.shop" not in shown


@each_row("pattern", ["", "*", "**", "a b", "http://a.example/", "/srv/files:1", "bü*.example"])
def test_an_invalid_pattern_and_a_pattern_of_all_hosts_are_not_denied(db, pattern):
    answer = visitor("administrator").post(
        "/hosts/denied/", {"pattern": pattern, "reason": "they asked", "confirm": "on", "deny": ""}
    )

    assert 'class="message warning"' in answer.content.decode()
    assert not ThrottlePolicy.objects.exists()


def test_a_host_that_is_already_denied_is_refused_with_the_reason(db):
    client = visitor("administrator")
    client.post("/hosts/denied/", {"pattern": "*.example", "reason": "they asked", "confirm": "on", "deny": ""})

    answer = client.post(
        "/hosts/denied/", {"pattern": "*.Example", "reason": "they asked", "confirm": "on", "deny": ""}
    )

    assert "Deny list already denies *.Example." in text_of(answer)
    assert ThrottlePolicy.objects.get().rules.count() == 2


def test_a_policy_with_the_name_of_the_deny_list_is_listed(db):
    make_policy("Deny list", open_requests=1)

    answer = visitor("administrator").post(
        "/hosts/denied/", {"pattern": "*.example", "reason": "they asked", "confirm": "on", "deny": ""}
    )

    assert "The policy Deny list is not the deny list" in text_of(answer)
    assert not ThrottlePolicy.objects.get().rules.exists()


def test_viewers_neither_stop_nor_deny_hosts(busy):
    client = visitor("viewer")
    facts = {"reason": "no", "pattern": "a.example", "deny": ""}
    Bin.objects.update(back_off_level=1)

    of_it = [f"/hosts/{busy.pk}/{verb}/" for verb in ("stop", "release", "end-back-off")]
    for address in (*of_it, "/hosts/denied/"):
        assert client.post(address, facts).status_code == 403
    for address in ("/hosts/", f"/hosts/{busy.pk}/", "/hosts/denied/"):
        shown = text_of(client.get(address))
        assert not any(offer in shown for offer in ("Stop it", "Stop or deny", "Release host", "End back-off"))
    assert Bin.objects.filter(stopped_at=None, back_off_level=1).count() == 1


def test_operators_stop_and_deny_hosts_but_change_no_other_policy(busy):
    client = visitor("operator")
    rule = make_rule(make_policy("house rules", applies_everywhere=True), "*.internal", denies=True)

    client.post(f"/hosts/{busy.pk}/stop/", {"reason": "they called"})
    assert screen(busy)["cause"] == "stopped"
    client.post(f"/hosts/{busy.pk}/release/")
    client.post("/hosts/denied/", {"pattern": busy.name, "reason": "they called", "deny": ""})
    assert screen(busy)["cause"] == "denied"
    shown = text_of(client.get("/hosts/denied/"))
    assert "they called" in shown
    client.post("/hosts/denied/", {"pattern": "*.internal", "policy": rule.policy_id, "allow": ""})
    assert rule.policy.rules.count() == 1
    assert client.post(f"/hosts/{busy.pk}/end-back-off/").status_code == 403


# --- Other pages --------------------------------------------------------------------------------------


def test_a_job_and_its_document_agree_on_their_host(connection, busy):
    register_node(connection, "worker")
    BinState.objects.filter(bin=busy).update(last_start_at="2100-01-01T00:00Z")
    job = busy.lanes.get().seed.job
    document = QueueItem.objects.filter(job=job).first()
    why = "At most one start every 4 s: policy “newspapers”."

    (row,) = read_screen(f"job-{job.pk}")["hosts"]

    assert (row["waits"], row["pace"], row["pending"]) == (why, "8 at a time, one every 4 s", "7")
    story = text_of(visitor().get(f"/documents/{job.pk}/{document.hash.hex}/"))
    assert f"The document waits for news.example. {why}" in story
