"""Administrators create, change, preview and delete throttle policies on the set-up pages."""

import datetime as dt

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from jobs.checks.policies import RuleWanted
from jobs.models import BinLimit, ThrottlePolicy
from jobs.verbs import policies
from tests.support.api import make_job, make_user
from tests.support.factories import make_bin, make_documents, make_lane
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

ADD = "/admin/jobs/throttlepolicy/add/"
LIST = "/admin/jobs/throttlepolicy/"


def client_of(*roles, permissions=()):
    user = make_user(*roles)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def administrator():
    return client_of(ADMINISTRATOR)


def form(*rules, **fields):
    """Return the form that a browser sends: a policy with usual values, and rules with the given fields."""
    usual = {"name": "gentle", "open_requests": 2, "min_gap": "1.0", "time_zone": "UTC"}
    sent = usual | {"rules-TOTAL_FORMS": len(rules), "rules-INITIAL_FORMS": 0}
    for number, rule in enumerate(rules):
        sent |= {f"rules-{number}-{name}": value for name, value in ({"days": [1, 2, 3, 4, 5, 6, 7]} | rule).items()}
    return sent | fields


def change_of(policy):
    return f"{LIST}{policy.pk}/change/"


def sentences(response):
    assert response.status_code == 200
    return " ".join(response.content.decode().split())


# --- Creation and change ---------------------------------------------------------------------------


def test_a_policy_with_its_rules_is_made_in_the_browser(administrator):
    by_night = {"place": 2, "from_time": "22:00", "to_time": "06:00", "days": [1, 2], "min_gap": "0.5"}
    denied = {"place": 1, "pattern": "*.example", "denies": "on"}

    response = administrator.post(ADD, form(by_night, denied, starts=30, period="minute", time_zone="Europe/Berlin"))

    assert response.status_code == 302, response.context["errors"]
    policy = ThrottlePolicy.objects.get()
    assert (policy.name, policy.starts, policy.period, policy.time_zone) == ("gentle", 30, "minute", "Europe/Berlin")
    assert policies.rules_of(policy) == [
        RuleWanted(pattern="*.example", denies=True),
        RuleWanted(days=(1, 2), from_time=dt.time(22), to_time=dt.time(6), min_gap=0.5),
    ]


def test_a_policy_is_shown_as_stored_and_can_be_changed(administrator):
    administrator.post(ADD, form({"pattern": "a.example", "min_gap": "3.5"}, {"pattern": "b.example", "denies": "on"}))
    policy = ThrottlePolicy.objects.get()
    first, second = policy.rules.all()
    shown = sentences(administrator.get(change_of(policy)))

    changed = form(
        {"id": first.pk, "pattern": "a.example", "min_gap": "4", "place": 2},
        {"id": second.pk, "pattern": "b.example", "denies": "on", "place": 1},
        **{"rules-INITIAL_FORMS": 2, "min_gap": "2"},
    )
    response = administrator.post(change_of(policy), changed)

    assert 'value="3.5"' in shown
    assert all(f"Rule {number}" in shown for number in (1, 2))
    assert response.status_code == 302, response.context["errors"]
    policy.refresh_from_db()
    assert policy.min_gap == 2.0
    assert [rule.pattern for rule in policies.rules_of(policy)] == ["b.example", "a.example"]


def test_a_rule_is_removed_in_the_browser(administrator):
    saved = policies.create(name="gentle", rules=[RuleWanted(pattern="a.example", min_gap=3.0)], everywhere=True)
    rule = {"id": saved.policy.rules.get().pk, "pattern": "a.example", "min_gap": "3", "DELETE": "on"}

    administrator.post(change_of(saved.policy), form(rule, **{"rules-INITIAL_FORMS": 1}))

    assert not saved.policy.rules.exists()


def test_a_probably_unintended_value_gets_a_warning(administrator):
    response = administrator.post(ADD, form(starts=5, period="second"), follow=True)

    assert "The minimum gap of 1 s is longer, so it applies" in sentences(response)


@each_row(
    ("fields", "sentence"),
    [
        ({"min_gap": "0"}, "Nothing would limit the rate"),
        ({"starts": 5}, "5 starts need a period"),
        ({"starts": 0, "period": "minute"}, "To fetch nothing, write a rule that denies."),
        ({"time_zone": "Mars/Olympus"}, "Write one like Europe/Berlin"),
        ({"open_requests": ""}, "This field is required."),
        ({"name": "taken"}, "Choose another name"),
    ],
)
def test_an_invalid_policy_is_refused_with_a_reason(administrator, fields, sentence):
    ThrottlePolicy.objects.create(name="taken")

    assert sentence in sentences(administrator.post(ADD, form(**fields)))
    assert ThrottlePolicy.objects.count() == 1


@each_row(
    ("rule", "sentence"),
    [
        ({"pattern": "a.example"}, "The rule changes nothing"),
        ({"denies": "on", "days": []}, "A rule without days never applies"),
        ({"denies": "on", "from_time": "08:00", "to_time": "08:00"}, "The end is equal to the beginning"),
        ({"denies": "on", "pattern": "http://a.example/"}, "without a scheme or a path"),
    ],
)
def test_an_invalid_rule_is_refused_with_an_error_beside_it(administrator, rule, sentence):
    response = administrator.post(ADD, form({"pattern": "b.example", "min_gap": "2", "place": 2}, rule | {"place": 1}))

    assert sentence in sentences(response)
    _fine, wrong = response.context["inline_admin_formsets"][0].formset.forms
    assert wrong.errors
    assert not ThrottlePolicy.objects.exists()


def test_a_policy_without_a_pace_has_to_be_confirmed(administrator):
    assert administrator.post(ADD, form(min_gap="0", unlimited="on")).status_code == 302


def test_the_form_of_a_policy_shows_denials_first_as_a_list_of_lines(administrator):
    by_night = {"from_time": "22:00", "to_time": "06:00", "min_gap": "0.5"}

    administrator.post(ADD, form(by_night, denied="a.example\n\n *.b.example\na.example"))

    policy = ThrottlePolicy.objects.get()
    rules = policies.rules_of(policy)
    assert [(rule.pattern, rule.denies) for rule in rules] == [("a.example", True), ("*.b.example", True), ("", False)]
    page = administrator.get(change_of(policy))
    assert "a.example\n*.b.example</textarea>" in page.content.decode()
    assert page.context["inline_admin_formsets"][0].formset.initial_form_count() == 1


def test_removing_a_line_of_the_deny_list_keeps_the_rules_of_the_policy(administrator):
    rules = [RuleWanted(pattern="a.example", denies=True), RuleWanted(pattern="b.example", min_gap=3.0)]
    policy = policies.create(name="gentle", rules=rules, everywhere=True).policy
    slow = {"id": policy.rules.get(pattern="b.example").pk, "pattern": "b.example", "min_gap": "3"}

    response = administrator.post(change_of(policy), form(slow, denied="c.example", **{"rules-INITIAL_FORMS": 1}))

    assert response.status_code == 302, response.context["errors"]
    assert policies.rules_of(policy) == [RuleWanted(pattern="c.example", denies=True), rules[1]]


def test_errors_of_denied_lines_and_of_rules_are_shown_at_their_place(administrator):
    wrong_line = administrator.post(ADD, form(denied="a.example\nhttp://b.example/"))
    hidden = administrator.post(ADD, form({"pattern": "a.example", "min_gap": "2"}, denied="x.example\na.example"))

    assert "denied" in wrong_line.context["adminform"].form.errors
    assert "&#x27;http://b.example/&#x27; cannot be the name of a host" in sentences(wrong_line)
    assert "This rule never applies: rule 2 matches all of its hosts" in sentences(hidden)


def test_a_long_list_is_denied_in_the_browser(administrator):
    response = administrator.post(ADD, form(denied="\n".join(f"{number}.example" for number in range(600))))

    assert response.status_code == 302
    assert ThrottlePolicy.objects.get().rules.count() == 600


# --- Previews --------------------------------------------------------------------------------------


def bind(policy, *names):
    job = make_job(policy=policy)
    bins = [make_bin(name) for name in names]
    BinLimit.objects.bulk_create(BinLimit(bin=bin_, job=job, policy=policy) for bin_ in bins)


def test_a_rehearsal_shows_the_affected_hosts_and_stores_nothing(administrator):
    policy = ThrottlePolicy.objects.create(name="gentle")
    bind(policy, "a.example", "b.test")
    rules = ({"pattern": "*.example", "denies": "on"}, {"pattern": "*.exmaple", "min_gap": "2"})

    page = sentences(administrator.post(change_of(policy), form(*rules, _rehearse=1)))

    assert "Hosts: 1. Seeds: 1." in page
    assert "The 2 hosts that its seeds reached were checked." in page
    assert "*.example matches 1: a.example" in page
    assert "*.exmaple matches none of these hosts." in page
    assert "2 at a time, one every 1 s" in page
    assert "denied" in page
    policy.refresh_from_db()
    assert (policy.version, policy.rules.count()) == (1, 0)


def test_a_rehearsal_shows_changes_that_keep_the_numbers(administrator):
    policy = ThrottlePolicy.objects.create(name="gentle")
    bind(policy, "a.example")
    in_some_days = {"days": [(dt.datetime.now(dt.UTC).isoweekday() + 2) % 7 + 1], "min_gap": "9"}

    assert "(unchanged now, different at other times)" in sentences(
        administrator.post(change_of(policy), form(in_some_days, _rehearse=1))
    )
    assert "(newly limited together with other hosts at its address)" in sentences(
        administrator.post(change_of(policy), form(per_address="on", _rehearse=1))
    )


def test_a_rehearsal_names_hosts_where_other_policies_are_stricter(administrator):
    policy = ThrottlePolicy.objects.create(name="gentle")
    bind(policy, "a.example")
    ThrottlePolicy.objects.create(name="cap", applies_everywhere=True, min_gap=5.0)

    page = sentences(administrator.post(change_of(policy), form(min_gap="3", _rehearse=1)))

    assert "2 at a time, one every 5 s (unchanged: another limit is stricter)" in page


def test_a_rehearsal_shows_the_documents_of_a_host_and_their_time(administrator):
    policy = ThrottlePolicy.objects.create(name="gentle")
    bind(policy, "a.example")
    make_documents(make_lane(make_job("crawled", policy=policy).seeds.get()), 60)

    page = sentences(administrator.post(change_of(policy), form(min_gap="2", _rehearse=1)))

    # The host serves one document a second now, and one document every two seconds after the change.
    assert '60</td> <td class="pr-4 py-1">1 min 0 s</td> <td class="py-1">2 min 0 s</td>' in page


def test_only_loopback_addresses_can_be_exempt_from_gaps(administrator):
    policy = ThrottlePolicy.objects.create(name="gentle")
    bind(policy, "a.example", "127.0.0.1:8000")

    assert "Hosts: 1. Seeds: 1." in sentences(
        administrator.post(change_of(policy), form(skips_loopback="on", _rehearse=1))
    )


def test_a_rehearsal_keeps_the_input_of_the_form(administrator):
    response = administrator.post(ADD, form({"pattern": "typed.example", "min_gap": "2"}, name="typed", _rehearse=1))

    assert 'value="typed.example"' in sentences(response)
    assert 'value="typed"' in sentences(response)
    assert not ThrottlePolicy.objects.exists()


def test_a_rehearsal_of_an_invalid_change_shows_the_reason(administrator):
    page = sentences(administrator.post(ADD, form(min_gap="0", _rehearse=1)))

    assert "Nothing would limit the rate" in page
    assert "Rehearsal: affected hosts" not in page


# --- Permissions -----------------------------------------------------------------------------------


@each_row("role", [VIEWER, OPERATOR])
def test_only_administrators_change_policies(role):
    policy = ThrottlePolicy.objects.create(name="gentle")
    client = client_of(role)

    assert client.post(ADD, form()).status_code == 403
    assert client.post(change_of(policy), form()).status_code == 403
    assert "Rehearse" not in sentences(client.get(change_of(policy)))


@each_row(
    "fields", [form(applies_everywhere="on"), form({"pattern": "a.example", "denies": "on"}), form(denied="a.example")]
)
def test_cluster_wide_limits_and_denials_need_their_own_permission(fields):
    apprentice = client_of(OPERATOR, permissions=["add_throttlepolicy", "change_throttlepolicy"])

    assert apprentice.post(ADD, fields).status_code == 403
    assert apprentice.post(ADD, fields | {"_rehearse": 1}).status_code == 403
    assert apprentice.post(ADD, form()).status_code == 302


# --- Deletion and lists ----------------------------------------------------------------------------


def test_a_policy_in_use_is_not_deleted_and_its_users_are_named(administrator):
    used, free = ThrottlePolicy.objects.create(name="used"), ThrottlePolicy.objects.create(name="free")
    make_job("manual", policy=used)

    page = sentences(administrator.get(f"{LIST}{used.pk}/delete/"))
    administrator.post(f"{LIST}{used.pk}/delete/", {"post": "yes"})
    administrator.post(f"{LIST}{free.pk}/delete/", {"post": "yes"})

    assert "used cannot be deleted while it is used by: manual." in page
    assert [policy.name for policy in ThrottlePolicy.objects.all()] == ["used"]


def test_several_policies_are_deleted_together_unless_a_policy_is_in_use(administrator):
    used, free = ThrottlePolicy.objects.create(name="used"), ThrottlePolicy.objects.create(name="free")
    make_job("manual", policy=used)
    action = {"action": "delete_selected", "post": "yes"}

    refused = sentences(administrator.post(LIST, action | {"_selected_action": [used.pk, free.pk]}))
    administrator.post(LIST, action | {"_selected_action": [free.pk]})

    assert "used cannot be deleted" in refused
    assert ThrottlePolicy.objects.get() == used


def test_the_list_of_policies_shows_their_limits(administrator):
    saved = policies.create(
        name="gentle", starts=30, period="minute", total_open_requests=9, bytes_per_second=1_000, everywhere=True
    )
    ThrottlePolicy.objects.create(name="of a one-shot", private_to=make_job(policy=saved.policy))

    page = sentences(administrator.get(LIST))

    assert "2 at a time, one every 2 s, 1,000 bytes per second" in page
    assert "9 at a time" in page
    assert "of a one-shot" not in page
