"""The API stores, changes, deletes and previews throttle policies."""

import psycopg
import pytest
from django.contrib.auth.models import Permission
from django.db import transaction
from rest_framework.test import APIClient

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from crawlctl.languages import speaking
from jobs.checks.policies import RuleWanted, check
from jobs.lifecycle.job import Phase
from jobs.models import Bin, BinLimit, BinState, ThrottlePolicy
from jobs.state import channels
from jobs.throttling.windows import EVERY_DAY
from tests.support.api import assert_problem, client_of, make_job, make_user, set_phase
from tests.support.factories import make_bin, make_rule
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

POLICIES = "/api/v1/policies/"
NO_RULE = {
    "pattern": "",
    "days": list(EVERY_DAY),
    "from_time": None,
    "to_time": None,
    "open_requests": None,
    "min_gap": None,
    "starts": None,
    "period": "",
    "bytes_per_second": None,
    "total_open_requests": None,
    "total_starts": None,
    "total_period": "",
    "total_bytes_per_second": None,
    "denies": False,
}


@pytest.fixture
def administrator():
    return client_of(ADMINISTRATOR)


@pytest.fixture
def policy_editor():
    """Return the client of a user that may change policies, but not limits of the whole cluster."""
    user = make_user(OPERATOR)
    names = [f"{verb}_throttlepolicy" for verb in ("add", "change", "delete")]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    client = APIClient()
    client.force_login(user)
    return client


def store(client, **fields):
    response = client.post(POLICIES, {"name": "gently"} | fields)
    assert response.status_code == 201, response.content
    return response.json()


def address_of(policy):
    return f"{POLICIES}{policy['id'] if isinstance(policy, dict) else policy.pk}/"


def bind(policy, *names):
    """Make a job with a seed of this policy that has reached hosts with these names. Return the job."""
    job = make_job(policy=policy)
    bins = [make_bin(name) for name in names]
    BinLimit.objects.bulk_create(BinLimit(bin=bin_, job=job, policy=policy) for bin_ in bins)
    return job


# --- Stored, changed, deleted ----------------------------------------------------------------------


def test_a_policy_is_stored_changed_and_deleted(administrator):
    made = store(administrator, min_gap=2.5)

    changed = administrator.patch(address_of(made), {"open_requests": 1})

    assert changed.json() == {**made, "open_requests": 1, "version": made["version"] + 1}
    assert administrator.delete(address_of(made)).status_code == 204
    assert not ThrottlePolicy.objects.exists()


def test_every_field_of_a_policy_is_shown_as_stored(administrator):
    fields = {
        "name": "gently",
        "open_requests": 3,
        "min_gap": 0.5,
        "starts": 30,
        "period": "minute",
        "bytes_per_second": 100_000,
        "total_open_requests": 20,
        "total_starts": 100,
        "total_period": "second",
        "total_bytes_per_second": 1_000_000,
        "applies_everywhere": True,
        "per_address": True,
        "skips_loopback": True,
        "time_zone": "Europe/Berlin",
        "rules": [
            NO_RULE | {"pattern": "bad.example", "denies": True},
            NO_RULE | {"days": [6, 7], "from_time": "22:00:00", "to_time": "06:00:00", "starts": 2, "period": "second"},
        ],
    }

    made = store(administrator, **fields)

    shown = administrator.get(address_of(made)).json()
    assert {name: shown[name] for name in fields} == fields


def test_a_change_replaces_all_rules_and_a_change_without_rules_keeps_all(administrator):
    made = store(administrator, rules=[{"pattern": "*.example", "min_gap": 9}])
    address = address_of(made)

    unchanged = administrator.patch(address, {"min_gap": 2}).json()
    replaced = administrator.patch(address, {"rules": [{"pattern": "*", "days": [7, 7, 1], "min_gap": 3}]}).json()

    assert unchanged["rules"] == made["rules"]
    assert replaced["rules"] == [NO_RULE | {"days": [1, 7], "min_gap": 3.0}]


def test_a_policy_of_a_one_shot_is_not_listed_but_has_an_address():
    private = ThrottlePolicy.objects.create(name="of a one-shot", private_to=make_job())
    client = client_of(VIEWER)

    assert client.get(POLICIES).json()["results"] == []
    assert client.get(address_of(private)).json()["private_to"] == private.private_to_id


def test_many_policies_with_rules_are_listed_in_a_few_queries(administrator, django_assert_max_num_queries):
    for number in range(20):
        make_rule(ThrottlePolicy.objects.create(name=f"policy {number}"), "a.example", denies=True)

    # One of the queries checks for newer settings.
    with django_assert_max_num_queries(7):
        assert len(administrator.get(POLICIES).json()["results"]) == 20


@pytest.mark.django_db(transaction=True)
def test_running_nodes_are_notified_of_each_change(administrator, dsn):
    with psycopg.connect(dsn, autocommit=True) as listener:
        listener.execute(f"LISTEN {channels.CONTROL}")

        address = address_of(store(administrator))
        administrator.patch(address, {"min_gap": 3})
        administrator.post(f"{address}preview/", {"min_gap": 4})
        administrator.delete(address)

        assert len(list(listener.notifies(timeout=5, stop_after=3))) == 3
        assert not list(listener.notifies(timeout=0.2))


# --- Permissions -----------------------------------------------------------------------------------


def test_a_list_of_policies_shows_some_rules_and_a_single_policy_shows_all(administrator):
    rules = [{"pattern": f"h{number}.example", "denies": True} for number in range(12)]
    made = administrator.post(POLICIES, {"name": "many", "rules": rules}).json()
    administrator.post(POLICIES, {"name": "none"})

    many, none = administrator.get(POLICIES).json()["results"]

    assert "rules" not in many
    assert (many["rules_in_all"], many["first_rules"]) == (12, made["rules"][:10])
    assert (none["rules_in_all"], none["first_rules"]) == (0, [])
    assert administrator.get(f"{POLICIES}{made['id']}/").json()["rules"] == made["rules"]


DENYING = {"rules": [{"pattern": "bad.example", "denies": True}]}


@each_row("fields", [{"applies_everywhere": True}, DENYING])
def test_creating_a_cluster_wide_policy_needs_its_permission(policy_editor, fields):
    assert_problem(policy_editor.post(POLICIES, {"name": "x"} | fields), 403, "permission_denied")
    assert_problem(policy_editor.post(f"{POLICIES}preview/", {"name": "x"} | fields), 403, "permission_denied")
    assert not ThrottlePolicy.objects.exists()


@each_row(
    "change",
    [
        {"min_gap": 9},
        {"applies_everywhere": False},
        {"rules": [{"pattern": "bad.example", "min_gap": 1}]},
    ],
)
def test_changing_a_cluster_wide_policy_needs_its_permission(administrator, policy_editor, change):
    made = store(administrator, applies_everywhere=True, **DENYING)

    assert_problem(policy_editor.patch(address_of(made), change), 403, "permission_denied")
    assert_problem(policy_editor.delete(address_of(made)), 403, "permission_denied")
    assert administrator.get(address_of(made)).json()["version"] == made["version"]


@each_row(
    "rules",
    [
        [],
        [{"pattern": "bad.example", "denies": True, "days": [1]}],
        [{"pattern": "bad.*", "min_gap": 5, "days": [6]}, {"pattern": "bad.example", "denies": True}],
    ],
    ids=["taken out", "on fewer days", "let pass before"],
)
def test_a_user_without_permission_to_deny_hosts_cannot_remove_denials(administrator, policy_editor, rules):
    made = store(administrator, **DENYING)

    assert_problem(policy_editor.patch(address_of(made), {"rules": rules}), 403, "permission_denied")


def test_a_user_without_permission_to_deny_hosts_may_change_other_limits(administrator, policy_editor):
    made = store(administrator, **DENYING)
    rules = [*DENYING["rules"], {"pattern": "slow.example", "min_gap": 60}]

    assert policy_editor.patch(address_of(made), {"min_gap": 3, "rules": rules}).status_code == 200
    assert_problem(policy_editor.delete(address_of(made)), 403, "permission_denied")


# --- Refusals --------------------------------------------------------------------------------------


@each_row(
    ("values", "field", "sentence"),
    [
        ({"starts": 0, "period": "minute"}, "starts", "To fetch nothing, write a rule that denies."),
        ({"starts": -5, "period": "minute"}, "starts", "whole number from 1 to 1000000"),
        ({"starts": 5}, "period", "5 starts need a period"),
        ({"period": "hour"}, "starts", "The period hour needs a number of starts"),
        ({"starts": 5, "period": "fortnight"}, "period", "not a valid choice"),
        ({"total_starts": 5}, "total_period", "5 starts need a period"),
        ({"bytes_per_second": 0}, "bytes_per_second", "0 bytes a second is not a limit"),
        ({"total_open_requests": 0}, "total_open_requests", "0 open requests is not a limit"),
        ({"open_requests": 1001}, "open_requests", "from 1 to 1000"),
        ({"min_gap": 90_000}, "min_gap", "seconds from 0 to 86400"),
        ({"min_gap": 0}, "unlimited", "Nothing would limit the rate"),
        ({"time_zone": "Mars/Olympus"}, "time_zone", "Write one like Europe/Berlin"),
        ({"rules": "none"}, "rules", "Expected a list"),
        ({"rules": [{"denies": True}] * 2_001}, "rules", "at most 2,000 rules"),
    ],
)
def test_an_invalid_policy_is_refused_with_its_field(administrator, values, field, sentence):
    problem = assert_problem(administrator.post(POLICIES, {"name": "x"} | values), 400, "invalid", fields=[field])

    assert sentence in problem["fields"][field][0]
    assert not ThrottlePolicy.objects.exists()


@each_row(
    ("rule", "field", "sentence"),
    [
        ({}, "", "The rule changes nothing"),
        ({"pattern": "a.example"}, "", "The rule changes nothing"),
        ({"days": [], "denies": True}, ".days", "A rule without days never applies"),
        ({"days": [8], "denies": True}, ".days", "from 1 (Monday) to 7 (Sunday)"),
        ({"from_time": "08:00", "to_time": "08:00", "denies": True}, ".to_time", "The end is equal to the beginning"),
        ({"from_time": "08:00", "denies": True}, ".to_time", "a beginning and an end"),
        ({"to_time": "08:00", "denies": True}, ".from_time", "a beginning and an end"),
        ({"from_time": "25:00", "to_time": "08:00", "denies": True}, ".from_time", "wrong format"),
        ({"starts": 5}, ".period", "5 starts need a period"),
        ({"starts": 0, "period": "day"}, ".starts", "0 starts is not a limit"),
        ({"denies": True, "min_gap": 3}, ".denies", "Leave out min_gap"),
        (
            {"pattern": "a.example", "total_starts": 3, "total_period": "day"},
            ".total_starts",
            "only a rule with an empty pattern",
        ),
        ({"pattern": "http://a.example/", "denies": True}, ".pattern", "without a scheme or a path"),
        ({"pattern": "a.example/path", "denies": True}, ".pattern", "without a scheme or a path"),
        ({"pattern": "a example", "denies": True}, ".pattern", "cannot be the name of a host"),
        ({"pattern": "a.example.", "denies": True}, ".pattern", "cannot be the name of a host"),
        ({"pattern": "bü*.example", "denies": True}, ".pattern", "names of hosts are stored in ASCII"),
        ({"pattern": "a" * 301, "denies": True}, ".pattern", "cannot be the name of a host"),
        ({"min_gap": 0}, ".min_gap", "Nothing would limit the rate"),
        ({"speed": 3}, ".speed", "Unknown field"),
    ],
)
def test_an_invalid_rule_of_a_policy_is_refused_with_its_place_and_field(administrator, rule, field, sentence):
    before = {"pattern": "before.example", "min_gap": 3}

    response = administrator.post(POLICIES, {"name": "x", "rules": [before, rule]})

    problem = assert_problem(response, 400, "invalid", fields=[f"rules.1{field}"])
    assert sentence in problem["fields"][f"rules.1{field}"][0]
    assert not ThrottlePolicy.objects.exists()


NIGHT = {"from_time": "22:00", "to_time": "06:00"}


@each_row(
    ("earlier", "later"),
    [
        ({"min_gap": 2}, {"pattern": "a.example", "denies": True}),
        ({"pattern": "a.example", "min_gap": 2}, {"pattern": "A.example", "denies": True}),
        ({"pattern": "a.example", "min_gap": 2}, {"pattern": "a.example", "denies": True, **NIGHT}),
        ({"min_gap": 2, **NIGHT}, {"pattern": "a.example", "denies": True, **NIGHT}),
        ({"pattern": "*.example", "min_gap": 2}, {"pattern": "a.example", "denies": True}),
        ({"pattern": "*.example", "min_gap": 2}, {"pattern": "*.a.example", "min_gap": 5}),
        (
            {"pattern": "a*", "min_gap": 2, **NIGHT},
            {"pattern": "a.*", "min_gap": 5, "from_time": "23:00", "to_time": "01:00"},
        ),
    ],
)
def test_a_rule_that_an_earlier_rule_always_overrides_is_refused(administrator, earlier, later):
    response = administrator.post(POLICIES, {"name": "x", "rules": [earlier, later]})

    assert_problem(response, 400, "invalid", fields=["rules.1"])


def test_a_rule_that_several_earlier_rules_always_override_is_refused(administrator):
    by_day = {"from_time": "06:00", "to_time": "22:00"}
    hiding = [
        {"pattern": "*.example", "min_gap": 2, **NIGHT},
        {"pattern": "b.*", "min_gap": 3},
        {"min_gap": 4, **by_day},
    ]

    response = administrator.post(POLICIES, {"name": "x", "rules": [*hiding, {"pattern": "a.example", "min_gap": 9}]})

    problem = assert_problem(response, 400, "invalid", fields=["rules.3"])
    assert "rules 1, 3 together match all of its hosts" in problem["fields"]["rules.3"][0]


def test_a_deny_list_may_name_a_host_and_its_whole_domain(administrator):
    store(administrator, rules=[{"pattern": pattern, "denies": True} for pattern in ("*.example", "a.example")])


def test_patterns_match_hosts_in_upper_and_lower_case(administrator):
    made = store(administrator, rules=[{"pattern": "*.bücher.example:8080", "denies": True}])

    assert made["rules"][0]["pattern"] == "*.xn--bcher-kva.example:8080"


def test_a_rule_for_some_hosts_must_precede_a_rule_for_all_hosts(administrator):
    store(administrator, rules=[{"pattern": "a.example", "denies": True}, {"min_gap": 2, **NIGHT}, {"min_gap": 3}])


def test_a_policy_without_a_pace_must_be_confirmed_once(administrator):
    made = store(administrator, min_gap=0, unlimited=True)

    changed = administrator.patch(address_of(made), {"open_requests": 5})

    assert made["unlimited"] is True
    assert changed.json()["unlimited"] is True


@each_row(
    ("fields", "gap"),
    [
        ({}, 1.0),
        ({"unlimited": True}, 0.0),
        ({"starts": 120, "period": "minute"}, 0.0),
        ({"starts": 120, "period": "minute", "min_gap": 0.25}, 0.25),
        ({"bytes_per_second": 9_000}, 1.0),
    ],
)
def test_a_policy_gets_the_default_gap_only_without_another_pace(administrator, fields, gap):
    assert store(administrator, **fields)["min_gap"] == gap


@each_row(
    ("fields", "what"),
    [
        ({"min_gap": 1.0}, "a gap of 1 s"),
        ({"starts": 5, "period": "hour"}, "a rate"),
        ({"min_gap": 0, "bytes_per_second": 9}, "bytes"),
    ],
)
def test_an_unlimited_policy_with_a_pace_is_refused(administrator, fields, what):
    wanted = {"name": "x", "unlimited": True} | fields

    problem = assert_problem(administrator.post(POLICIES, wanted), 400, "invalid", fields=["unlimited"])

    assert what in problem["fields"]["unlimited"][0]


def test_a_policy_with_a_gap_cannot_be_marked_as_unlimited(administrator):
    made = store(administrator, min_gap=2)

    assert_problem(administrator.patch(address_of(made), {"unlimited": True}), 400, "invalid", fields=["unlimited"])

    assert administrator.get(address_of(made)).json()["min_gap"] == 2


def test_a_gap_that_makes_a_rate_unreachable_gets_a_warning(administrator):
    made = store(administrator, starts=120, period="minute", min_gap=1.0)

    assert made["warnings"] == [
        "120 starts per minute mean one every 0.5 s. The minimum gap of 1 s is longer, so it applies."
    ]


@each_row("fields", [{"starts": 600, "period": "minute"}, {"bytes_per_second": 9_000}])
def test_a_rate_or_a_limit_of_bytes_also_counts_as_a_pace(administrator, fields):
    assert store(administrator, min_gap=0, **fields)["min_gap"] == 0.0


@each_row(
    ("fields", "sentence"),
    [
        ({"min_gap": 2, "starts": 1, "period": "second"}, "The minimum gap of 2 s is longer, so it applies"),
        (
            {"total_open_requests": 1},
            "All hosts together may have 1 open requests, so one host never reaches its limit of 2.",
        ),
        ({"bytes_per_second": 9, "total_bytes_per_second": 8}, "so one host never reaches its limit of 9"),
        (
            {"total_starts": 1, "total_period": "minute"},
            "one start every 60 s, so one host never gets a start every 1 s",
        ),
        ({"rules": [{"starts": 5, "period": "second"}]}, "Rule 1: 5 starts per second mean one every 0.2 s"),
        ({"rules": [{"denies": True}]}, "Rule 1 denies every host"),
    ],
)
def test_valid_but_probably_unintended_rules_get_a_warning(administrator, fields, sentence):
    (warning,) = store(administrator, **fields)["warnings"]

    assert sentence in warning


def test_a_warning_has_the_language_of_the_page_and_is_english_in_the_api(administrator):
    given = {"name": "gently", "rules": [{"denies": True}]}

    (english,) = administrator.post(POLICIES, given, HTTP_ACCEPT_LANGUAGE="de").json()["warnings"]
    with speaking("de"):
        (german,) = check(ThrottlePolicy(name="gently"), [RuleWanted(denies=True)], unlimited=False).warnings

    assert english == "Rule 1 denies every host at all times."
    assert german == "Regel 1 sperrt jeden Host zu jeder Zeit."


def test_the_name_of_another_policy_is_refused(administrator):
    store(administrator)

    assert_problem(administrator.post(POLICIES, {"name": "gently"}), 409, "name_taken", fields=["name"])


def test_a_policy_in_use_is_not_deleted_and_the_error_names_its_users(administrator):
    policy = ThrottlePolicy.objects.create(name="gently")
    for number in range(12):
        make_job(f"job {number:02}", policy=policy)

    problem = assert_problem(administrator.delete(address_of(policy)), 409, "in_use")

    assert "job 00, job 01, " in problem["detail"]
    assert "job 09 and 2 others" in problem["detail"]
    assert ThrottlePolicy.objects.exists()


# --- Previews --------------------------------------------------------------------------------------


def test_a_preview_shows_the_effects_of_a_change_and_stores_nothing(administrator):
    policy = ThrottlePolicy.objects.create(name="gently")
    bind(policy, "a.example", "b.example", "c.test")
    make_bin("other.example")
    rules = [{"pattern": "*.example", "starts": 30, "period": "minute"}]

    seen = administrator.post(f"{address_of(policy)}preview/", {"rules": rules}).json()

    assert seen["hosts"] == {"number": 2, "is_more": False, "names": ["a.example", "b.example"]}
    before = {"denied": False, "closed_until": None, "open_requests": 2, "gap": 1.0, "bytes_per_second": None}
    assert seen["changes"][0] == {
        "name": "a.example",
        "before": before,
        "after": before | {"gap": 2.0},
        "in_force_before": before,
        "in_force_after": before | {"gap": 2.0},
        "documents": 0,
        "seconds_before": 0.0,
        "seconds_after": 0.0,
    }
    assert seen["seeds"] == {"number": 1, "is_more": False, "names": ["manual: http://docs.test/"]}
    assert seen["rules"][0]["hosts"]["number"] == 2
    assert (seen["examined"], seen["of_all_hosts"], seen["has_more"]) == (3, False, False)
    policy.refresh_from_db()
    assert (policy.version, policy.rules.count()) == (1, 0)


def test_a_preview_combines_the_changed_limits_with_all_other_policies(administrator):
    policy, another = ThrottlePolicy.objects.create(name="gently"), ThrottlePolicy.objects.create(name="x", min_gap=5.0)
    bind(policy, "a.example")
    other_job = make_job("another", policy=another)
    set_phase(other_job, phase=Phase.ACTIVE)
    BinLimit.objects.create(bin=Bin.objects.get(), job=other_job, policy=another)
    Bin.objects.update(interval=0.5)

    (change,) = administrator.post(f"{address_of(policy)}preview/", {"min_gap": 3, "open_requests": 1}).json()[
        "changes"
    ]

    assert (change["before"]["gap"], change["after"]["gap"]) == (1.0, 3.0)
    assert (change["in_force_before"]["gap"], change["in_force_after"]["gap"]) == (5.0, 5.0)
    assert (change["in_force_before"]["open_requests"], change["in_force_after"]["open_requests"]) == (2, 1)


def test_a_preview_shows_patterns_that_match_nothing_and_everything(administrator):
    policy = ThrottlePolicy.objects.create(name="gently")
    bind(policy, "a.example")
    rules = [{"pattern": "*.exmaple", "min_gap": 3}, {"pattern": "a.*", "min_gap": 4}, {"pattern": "*", "min_gap": 5}]

    seen = administrator.post(f"{address_of(policy)}preview/", {"rules": rules}).json()

    assert [rule["matches"] for rule in seen["rules"]] == ["nothing", "something", "everything"]


def test_a_preview_of_a_policy_for_all_hosts_covers_all_hosts(administrator):
    bind(ThrottlePolicy.objects.create(name="another"), "a.example", "b.example")
    fields = {"name": "x", "applies_everywhere": True, "total_starts": 50, "total_period": "second"}

    seen = administrator.post(f"{POLICIES}preview/", fields).json()

    assert (seen["hosts"]["number"], seen["seeds"]["number"], seen["of_all_hosts"]) == (2, 1, True)
    assert seen["changes"][0]["before"] is None
    assert seen["total_before"] is None
    assert seen["total_after"] == {
        "denied": False,
        "closed_until": None,
        "open_requests": None,
        "gap": 0.02,
        "bytes_per_second": None,
    }
    assert not ThrottlePolicy.objects.filter(name="x").exists()


def test_a_preview_of_a_policy_changes_nothing_and_explains_its_patterns(administrator):
    make_bin("a.example")

    seen = administrator.post(
        f"{POLICIES}preview/", {"name": "x", "rules": [{"pattern": "a.*", "denies": True}]}
    ).json()

    assert (seen["hosts"]["number"], seen["changes"], seen["seeds"]["number"]) == (0, [], 0)
    assert seen["rules"][0]["hosts"]["names"] == ["a.example"]


def test_a_preview_counts_up_to_a_thousand_hosts_and_names_a_few(administrator):
    policy = ThrottlePolicy.objects.create(name="gently")
    job = bind(policy)
    with transaction.atomic():
        bins = Bin.objects.bulk_create(Bin(namespace="web", name=f"{number}.example") for number in range(1_200))
        BinState.objects.bulk_create(BinState(bin=bin_) for bin_ in bins)
    BinLimit.objects.bulk_create(BinLimit(bin=bin_, job=job, policy=policy) for bin_ in bins)

    seen = administrator.post(f"{address_of(policy)}preview/", {"min_gap": 7}).json()

    assert (seen["hosts"]["number"], seen["hosts"]["is_more"], len(seen["hosts"]["names"])) == (1_001, True, 5)
    assert len(seen["changes"]) == 20


def test_a_preview_of_an_invalid_change_is_refused(administrator):
    assert_problem(administrator.post(f"{POLICIES}preview/", {"name": "x", "min_gap": 0}), 400, "invalid")
    assert_problem(administrator.post(f"{POLICIES}77/preview/", {"min_gap": 1}), 404, "not_found")
