"""
Proves that the API shows hosts like their pages, at a bounded cost, and that it stops hosts and edits the deny list.
"""

import pytest

from jobs.models import Bin, BinState, CounterDelta, ThrottlePolicy
from tests.support.api import assert_problem, client_of
from tests.support.cluster import NOON, register_node
from tests.support.factories import make_bin, make_documents, make_lane, make_policy, make_rule, make_running_job
from tests.support.tables import each_row


@pytest.fixture
def busy(connection):
    """Return a host with seven waiting documents. A rule of its policy allows one start every 4 s."""
    register_node(connection, "worker")
    policy = make_policy("newspapers")
    make_rule(policy, "news.*", min_gap=4.0)
    running = make_running_job(register_node(connection, "manager"), policy=policy, name="daily")
    lane = make_lane(running.seed, "news.example", ready_at="2020-01-01T00:00Z")
    make_documents(lane, 7)
    CounterDelta.objects.create(job_id=running.job.pk, lane_id=lane.pk, run_no=1, measure="stage", stage=0, amount=7)
    return lane.bin


def test_a_host_shows_its_limit_and_the_source_of_the_limit(busy):
    shown = client_of("viewer").get(f"/api/v1/hosts/{busy.pk}/").json()

    assert (shown["name"], shown["kind"], shown["waiting"]) == ("news.example", "web", 7)
    assert shown["limits"] == {
        "denied": False,
        "closed_until": None,
        "open_requests": 8,
        "gap": 4.0,
        "bytes_per_second": None,
    }
    assert shown["allowed_starts_per_second"] == 0.25
    gap = shown["set_by"]["gap"]
    assert (gap["origin"], gap["policy_name"], gap["rule"]) == ("policy", "newspapers", 1)
    assert shown["set_by"]["bytes_per_second"] is None
    assert shown["limited_by"]["cause"] == "next"
    assert (shown["stopped"], shown["back_off"], shown["starts_per_second"]) == (None, None, None)
    assert [(lane["job_name"], lane["waiting"]) for lane in shown["lanes"]] == [("daily", 7)]
    assert len(shown["history"]) == 60


def test_the_cause_of_a_wait_names_its_policy_and_the_end_of_the_wait(connection, busy):
    make_policy("for all", applies_everywhere=True, open_requests=500, min_gap=9.0)
    BinState.objects.filter(bin=busy).update(last_start_at="2100-01-01T00:00Z")

    limited_by = client_of("viewer").get(f"/api/v1/hosts/{busy.pk}/").json()["limited_by"]

    assert (limited_by["cause"], limited_by["set_by"]["policy_name"]) == ("gap", "for all")
    assert limited_by["until"] == "2100-01-01T00:00:09Z"
    assert limited_by["since"]
    assert limited_by["shared_with"] is None


def test_hosts_are_listed_by_name_and_state_in_pages(connection):
    for number in range(5):
        make_bin(f"h{number}.example", stopped_at=NOON if number == 3 else None, back_off_level=number % 2)
    make_bin("x.example")
    make_bin("1", namespace=Bin.POLICY)
    client = client_of("viewer")

    def names(query):
        return [row["name"] for row in client.get(f"/api/v1/hosts/{query}").json()["results"]]

    assert names("?state=stopped") == ["h3.example"]
    assert names("?state=backing_off") == ["h1.example", "h3.example"]
    assert names("?state=open") == []
    assert names("?name=h&state=backing_off") == ["h1.example", "h3.example"]
    page = client.get("/api/v1/hosts/?name=h&limit=3").json()
    assert [row["name"] for row in page["results"]] == ["h0.example", "h1.example", "h2.example"]
    assert [row["name"] for row in client.get(page["next"]).json()["results"]] == ["h3.example", "h4.example"]
    assert names("") == [*(f"h{number}.example" for number in range(5)), "x.example"]


@each_row("query", ["?state=odd", "?limit=1000", "?cursor=odd", "?colour=red"])
def test_an_invalid_query_for_hosts_is_refused(db, query):
    assert_problem(
        client_of("viewer").get(f"/api/v1/hosts/{query}"), 400, "invalid", fields=[query[1:].partition("=")[0]]
    )


def test_a_host_is_stopped_with_a_reason_and_released(busy):
    client = client_of("administrator")

    stopped = client.post(f"/api/v1/hosts/{busy.pk}/stop/", {"reason": "they called"}, format="json").json()

    assert stopped["limited_by"]["cause"] == "stopped"
    assert (stopped["stopped"]["by"], stopped["stopped"]["reason"]) == ("a administrator", "they called")
    assert (stopped["limits"]["denied"], stopped["limits"]["closed_until"]) == (False, "9999-01-01T00:00:00Z")
    again = client.post(f"/api/v1/hosts/{busy.pk}/stop/", {"reason": "they called"}, format="json")
    assert_problem(again, 409, "refused")
    assert client.post(f"/api/v1/hosts/{busy.pk}/release/").json()["stopped"] is None
    assert_problem(client.post(f"/api/v1/hosts/{busy.pk}/release/"), 409, "refused")


def test_an_operator_ends_a_back_off_that_the_host_requested(busy):
    client = client_of("administrator")
    Bin.objects.update(back_off_level=2, back_off_until="2100-01-01T00:00Z", backing_off_since=NOON)
    assert client.get(f"/api/v1/hosts/{busy.pk}/").json()["limited_by"]["cause"] == "back_off"

    ended = client.post(f"/api/v1/hosts/{busy.pk}/end-back-off/").json()

    assert (ended["back_off"], ended["limited_by"]["cause"]) == (None, "next")
    assert_problem(client.post(f"/api/v1/hosts/{busy.pk}/end-back-off/"), 409, "refused")


def test_a_host_that_no_crawl_has_reached_is_stopped_by_its_name(db):
    client = client_of("operator")
    body = {"name": "New.example", "reason": "never"}
    assert_problem(client.post("/api/v1/hosts/stop/", body, format="json"), 409, "unknown_hosts")
    assert not Bin.objects.exists()

    stopped = client.post("/api/v1/hosts/stop/", {**body, "confirm": True}, format="json").json()

    assert (stopped["name"], stopped["stopped"]["reason"]) == ("new.example", "never")


def test_invalid_requests_about_hosts_change_nothing(busy):
    client = client_of("administrator")
    address = make_bin("192.0.2.1", namespace=Bin.ADDRESS)

    assert_problem(client.post(f"/api/v1/hosts/{busy.pk}/stop/", {}, format="json"), 400, "invalid", fields=["reason"])
    assert_problem(
        client.post(f"/api/v1/hosts/{busy.pk}/stop/", {"reason": "x" * 501}, format="json"),
        400,
        "invalid",
        fields=["reason"],
    )
    assert_problem(
        client.post("/api/v1/hosts/stop/", {"name": "a b", "reason": "no"}, format="json"),
        400,
        "invalid",
        fields=["name"],
    )
    assert_problem(client.post(f"/api/v1/hosts/{address.pk}/stop/", {"reason": "no"}, format="json"), 404, "not_found")
    assert_problem(client.post("/api/v1/hosts/999999/release/"), 404, "not_found")
    assert_problem(client.post("/api/v1/hosts/999999/end-back-off/"), 404, "not_found")
    assert_problem(client.get(f"/api/v1/hosts/{address.pk}/"), 404, "not_found")
    assert not Bin.objects.filter(stopped_at__isnull=False).exists()


def test_the_deny_list_is_read_lengthened_and_shortened(busy):
    client = client_of("operator")
    assert_problem(
        client.post("/api/v1/deny-list/", {"pattern": "*.example"}, format="json"), 400, "invalid", fields=["reason"]
    )
    unknown = {"pattern": "*.exmaple", "reason": "they called"}
    assert_problem(client.post("/api/v1/deny-list/", unknown, format="json"), 409, "unknown_hosts")

    body = {"pattern": "*.example", "reason": "they called"}
    (denial,) = client.post("/api/v1/deny-list/", body, format="json").json()["denials"]

    assert (denial["pattern"], denial["policy_name"], denial["rule"]) == ("*.example", "Deny list", 1)
    assert (denial["reason"], denial["denied_by"]) == ("they called", "a operator")
    assert client.get(f"/api/v1/hosts/{busy.pk}/").json()["limited_by"]["cause"] == "denied"
    taken_back = {"pattern": "*.example", "policy": denial["policy"]}
    assert client.post("/api/v1/deny-list/remove/", taken_back, format="json").json() == {"denials": []}
    assert_problem(client.post("/api/v1/deny-list/remove/", taken_back, format="json"), 409, "refused")
    assert_problem(
        client.post("/api/v1/deny-list/", {"pattern": "*", "reason": "no"}, format="json"),
        400,
        "invalid",
        fields=["pattern"],
    )
    assert ThrottlePolicy.objects.get(name="Deny list").rules.count() == 0
