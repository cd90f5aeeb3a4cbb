"""Proves that levels of tokens, authority groups and access rules of a job decide which tokens may see a document."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jobs.connectors.authority.kind import DENY_TOKEN
from jobs.connectors.repository.access import NO_RULES, OPEN, Access, JobAccess, Level, scope_token
from jobs.connectors.repository.access_rules import check_rules, read_rules
from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Content, Document
from tests.support.tables import each_row

TOKENS = ("a", "b", "c", "d")
SOME = st.lists(st.sampled_from(TOKENS), max_size=3).map(tuple)
LEVELS = st.builds(Level, SOME, SOME)
ACCESSES = st.builds(Access, LEVELS, st.lists(LEVELS, max_size=2).map(tuple), LEVELS)
USERS = st.sets(st.sampled_from(TOKENS)).map(frozenset)
PAGE = Content("http://a.example/x", "a title", "", "words", "text/plain", "")
RULES = [
    {"pattern": "/public/"},
    {"pattern": "/private/", "allow": ["editors", "staff"], "deny": ["interns"]},
]


def access(*allow, deny=()):
    return Access(Level(allow, tuple(deny)))


FOLDER = Access(Level(("alice",)), parents=(Level(("staff",), ("interns",)),), share=Level(("everyone",)))


@each_row(
    "one, tokens, is_seen",
    [
        (OPEN, set(), True),
        (access("a"), set(), False),
        (access("a", "b"), {"b"}, True),
        (access("a", deny=["b"]), {"a", "b"}, False),
        (access(deny=["b"]), {"a"}, False),
        (FOLDER, {"alice", "staff", "everyone"}, True),
        (FOLDER, {"alice", "staff"}, False),
        (FOLDER, {"alice", "staff", "everyone", "interns"}, False),
    ],
)
def test_a_document_is_visible_only_if_each_level_with_tokens_admits(one, tokens, is_seen):
    assert one.admits(tokens) == is_seen


@given(ACCESSES, ACCESSES)
def test_equal_accesses_have_one_text_and_one_digest(one, other):
    assert (one == other) == (one.text == other.text) == (one.digest == other.digest)
    assert one.is_open == (one.text == "")


@given(ACCESSES)
def test_an_access_survives_json_and_rows_of_levels(one):
    assert Access.from_json(one.as_json()) == one
    assert Access.from_levels((name, level.allow, level.deny) for name, level in one.levels) == one


@given(ACCESSES, USERS)
def test_tokens_in_an_authority_group_see_the_same_as_without_a_group(one, user):
    scoped = one.scoped("staff")

    assert scoped.admits({scope_token("staff", token) for token in user}) == one.admits(user)
    assert scoped.admits({scope_token("others", token) for token in TOKENS}) == one.is_open
    assert scoped.admits({scope_token("staff", token) for token in (*TOKENS, DENY_TOKEN)}) == one.is_open


def test_no_token_of_one_group_equals_one_of_another():
    assert scope_token("a", "b:c") != scope_token("a:b", "c")
    assert scope_token("a%3Ab", "c") != scope_token("a:b", "c")
    assert scope_token("staff", "editors") == "staff:editors"
    assert "\0" not in scope_token("a", "b\0\udc80").encode().decode()


def test_only_a_protected_access_changes_the_fingerprint_of_a_content():
    protected = replace(PAGE, access=access("a"))

    assert (
        len({PAGE.fingerprint, protected.fingerprint, replace(PAGE, access=access("a", deny=["b"])).fingerprint}) == 3
    )
    # Documents indexed by releases that did not know access keep their versions, so they are not written again.
    assert PAGE.fingerprint == "5c2ea538549284a60de517b9c5324ed8"


def test_the_first_matching_rule_replaces_the_access_of_the_source():
    job = read_rules(RULES, group="staff")

    assert job.of("http://a.example/public/x", access("alice")) == OPEN
    assert job.of("http://a.example/private/x", access("alice")) == Access(
        Level(("staff:editors", "staff:staff"), ("staff:interns", "staff:DEAD_AUTHORITY"))
    )
    assert job.of("http://a.example/x", access("alice")) == access("alice").scoped("staff")
    assert job.of("http://a.example/x", OPEN) == OPEN
    assert NO_RULES.of("http://a.example/x", access("alice")) == access("alice").scoped("")


def test_an_ingested_document_has_the_access_of_its_job():
    document = Document("0" * 32, "http://a.example/private/x", 0, 0, "", "", 0, 0.0)
    activity = Activity(document, configuration="1", access=read_rules(RULES, group="staff"))

    activity.ingest(PAGE, code="200", version="1:x", validators="")

    assert activity.outcome.content.access.document.allow == ("staff:editors", "staff:staff")


@each_row(
    "rules, problems",
    [
        (RULES, set()),
        ("none", {""}),
        ([{"pattern": "x"}] * 1001, {""}),
        ([{"pattern": "x"}, "nonsense"], {"1"}),
        ([{"pattern": "("}], {"0.pattern"}),
        ([{"pattern": ""}], {"0.pattern"}),
        ([{"allow": ["a"]}], {"0.pattern"}),
        ([{"pattern": "x", "permit": ["a"]}], {"0.permit"}),
        ([{"pattern": "x", "allow": "a"}], {"0.allow"}),
        ([{"pattern": "x", "allow": ["a\nb"]}], {"0.allow"}),
        ([{"pattern": "x", "allow": ["a" * 1001]}], {"0.allow"}),
        ([{"pattern": "x", "allow": ["a"], "deny": [1]}], {"0.deny"}),
        ([{"pattern": "x", "deny": ["a"]}], {"0.allow"}),
    ],
)  # fmt: skip
def test_problems_of_rules_name_their_field(rules, problems):
    assert set(check_rules(rules)) == problems


def test_a_job_without_rules_keeps_open_documents_open():
    assert JobAccess("staff").of("http://a.example/x", OPEN) is OPEN
