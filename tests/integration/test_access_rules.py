"""
Proves that the API, the form of a job and definitions store access rules, and refuse invalid rules at their field.
"""

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from crawlctl.access.roles import ADMINISTRATOR
from jobs.authorities.models import AuthorityGroup
from jobs.connectors.repository.access_text import parse_rules, rules_in_words
from jobs.models import Job, OutputConnection, RepositoryConnection
from tests.support.api import assert_problem, client_of, make_user
from tests.support.tables import each_row

JOBS = "/api/v1/jobs/"
FORM = "/admin/jobs/job/add/"
RULES = [
    {"pattern": "/private/", "allow": ["cn=editors,dc=example", "staff"], "deny": ["interns"]},
    {"pattern": ".", "allow": [], "deny": []},
]
TEXT = "for /private/\nallow cn=editors,dc=example\nallow staff\ndeny interns\nfor .\nopen"
WORDS = st.text("abc/.,=: ", min_size=1, max_size=9).map(str.strip).filter(bool)
TOKENS = st.lists(WORDS, max_size=3, unique=True)


@pytest.fixture
def administrator(db):
    return client_of(ADMINISTRATOR)


@pytest.fixture
def browser(db):
    client = Client()
    client.force_login(make_user(ADMINISTRATOR, name="vera"))
    return client


@pytest.fixture
def source(db):
    group = AuthorityGroup.objects.create(name="staff")
    return RepositoryConnection.objects.create(name="the web", authority_group=group)


@pytest.fixture
def wanted(source):
    return {
        "name": "docs",
        "repository": source.pk,
        "outputs": [OutputConnection.objects.create(name="index", connector="search").pk],
        "seeds": [{"urls": ["http://docs.test/"]}],
    }


@pytest.fixture
def form(wanted):
    return {
        "name": "docs",
        "repository": wanted["repository"],
        "built_for": "web",
        "outputs": wanted["outputs"],
        "priority": 5,
        "kind": "once",
        "start_method": "manual",
        "hop_mode": "accurate",
        "guard_documents": 20,
        "seeds-TOTAL_FORMS": 1,
        "seeds-INITIAL_FORMS": 0,
        "seeds-0-urls": "http://docs.test/",
    }


def test_the_api_stores_access_rules_and_a_change_rereads_all_documents(administrator, wanted):
    made = administrator.post(JOBS, {**wanted, "access_rules": [RULES[0], {"pattern": "."}]}).json()
    address = f"{JOBS}{made['id']}/"
    version = Job.objects.get().specification_version

    assert administrator.get(address).json()["access_rules"] == RULES
    administrator.patch(address, {"access_rules": RULES})
    assert Job.objects.get().specification_version == version
    administrator.patch(address, {"access_rules": RULES[1:]})
    assert Job.objects.get().specification_version == version + 1


@each_row(
    "rules, field",
    [
        ("none", "access_rules"),
        ([1], "access_rules.0"),
        ([{}], "access_rules.0.pattern"),
        ([{"pattern": "("}], "access_rules.0.pattern"),
        ([{"pattern": "x", "allow": "a"}], "access_rules.0.allow"),
        ([{"pattern": "x", "allow": ["a"]}, {"pattern": "y", "deny": ["a"]}], "access_rules.1.allow"),
        ([{"pattern": "x", "permit": ["a"]}], "access_rules.0.permit"),
    ],
)
def test_invalid_access_rules_are_refused_at_their_field(administrator, wanted, rules, field):
    answer = administrator.post(JOBS, {**wanted, "access_rules": rules})

    assert_problem(answer, 400, "invalid")
    assert any(name.startswith(field) for name in answer.json()["fields"]), answer.json()
    assert not Job.objects.exists()


def test_access_rules_with_tokens_need_a_source_with_an_authority_group(administrator, browser, wanted, form, source):
    source.authority_group = None
    source.save()

    refused = administrator.post(JOBS, {**wanted, "access_rules": RULES})
    assert_problem(refused, 400, "invalid", fields=["access_rules"])
    shown = browser.post(FORM, {**form, "access_rules": TEXT}).context["adminform"].form
    assert "source the web has none" in str(shown.errors["access_rules"])


def test_the_form_of_a_job_stores_and_shows_access_rules_as_lines(browser, form):
    answer = browser.post(FORM, {**form, "access_rules": TEXT})

    assert answer.status_code == 302, answer.context["adminform"].form.errors
    job = Job.objects.get()
    assert job.access_rules == RULES
    change = f"/admin/jobs/job/{job.pk}/change/"
    assert browser.get(change).context["adminform"].form["access_rules"].value() == TEXT
    assert "Access rules" in browser.get(f"/jobs/{job.pk}/").content.decode()


def test_a_source_whose_files_have_tokens_needs_an_authority_group(administrator, source, tmp_path, settings):
    settings.CRAWLCTL_FILE_ROOTS = (str(tmp_path),)
    files = {"name": "files", "connector": "filesystem", "configuration": {"roots": [str(tmp_path)], "access": "files"}}

    refused = administrator.post("/api/v1/repositories/", files)
    assert_problem(refused, 400, "invalid", fields=["authority_group"])

    group = source.authority_group_id
    made = administrator.post("/api/v1/repositories/", {**files, "authority_group": group})
    assert made.status_code == 201, made.json()
    refused = administrator.patch(made["Location"], {"authority_group": None})
    assert_problem(refused, 400, "invalid", fields=["authority_group"])
    refused = administrator.patch(made["Location"], {"configuration": {"roots": [str(tmp_path)], "everyone": "a\nb"}})
    assert_problem(refused, 400, "invalid", fields=["configuration.everyone"])


@each_row(
    "text, sentence",
    [
        ("allow staff", "Line 1: begin with the pattern"),
        ("for /a/\npermit staff", "Line 2 is invalid"),
        ("for /a/", "Rule 1 (/a/): write its tokens"),
        ("for /a/\nallow a\nopen", "Rule 1 (/a/): write its tokens"),
        ("for (\nallow a", "Rule 1: "),
        ("for /a/\ndeny a", "Rule 1: Without a token that allows"),
    ],
)
def test_an_invalid_line_of_access_rules_is_refused_at_its_field(browser, form, text, sentence):
    shown = browser.post(FORM, {**form, "access_rules": text}).context["adminform"].form

    assert sentence in "".join(shown.errors["access_rules"])


@given(st.lists(st.tuples(WORDS, TOKENS, TOKENS), max_size=4))
def test_printed_access_rules_are_read_back_unchanged(given_rules):
    rules = [
        {"pattern": pattern, "allow": allow, "deny": deny if allow else []} for pattern, allow, deny in given_rules
    ]

    assert parse_rules(rules_in_words(rules)) == rules
