"""
Proves that questions and answers follow ManifoldCF's contract. Also tests mappers and files of users.
"""

import asyncio

import pytest

from jobs.authorities.contract import Question, read_question, text_of
from jobs.authorities.service.plan import Answer, AuthorityFacts
from jobs.connectors.authority.expression import MAPPER
from jobs.connectors.authority.kind import Access, Limits, Status
from nodes.errors import Invalid
from tests.support.tables import each_row


def answer(status, *tokens, name="LDAP 1", group="g"):
    facts = AuthorityFacts(id=1, name=name, kind="x", configuration={}, limits=Limits(), group=group)
    return Answer(facts, "alice", Access(status, tokens), 0.0)


@each_row(
    ("given", "lines"),
    [
        (answer(Status.AUTHORIZED, "a", "b"), "AUTHORIZED:LDAP+1\nTOKEN:g:a\nTOKEN:g:b\n"),
        (answer(Status.AUTHORIZED), "AUTHORIZED:LDAP+1\n"),
        (answer(Status.UNREACHABLE), "UNREACHABLEAUTHORITY:LDAP+1\nTOKEN:g:DEAD_AUTHORITY\n"),
        (answer(Status.UNAUTHORIZED), "UNAUTHORIZED:LDAP+1\nTOKEN:g:DEAD_AUTHORITY\n"),
        (answer(Status.USER_NOT_FOUND), "USERNOTFOUND:LDAP+1\nTOKEN:g:DEAD_AUTHORITY\n"),
        (answer(Status.AUTHORIZED, "x\nTOKEN:g:admin\r"), "AUTHORIZED:LDAP+1\nTOKEN:g:x%0ATOKEN%3Ag%3Aadmin%0D\n"),
        (answer(Status.AUTHORIZED, "ü~*.-_", group="a:b"), "AUTHORIZED:LDAP+1\nTOKEN:a%3Ab:%C3%BC%7E*.-_\n"),
        (answer(Status.AUTHORIZED, name="a\nID:b"), "AUTHORIZED:a%0AID%3Ab\n"),
    ],
    ids=lambda value: getattr(value, "access", value) and str(value)[:40],
)
def test_each_answer_has_the_lines_of_manifoldcf(given, lines):
    assert text_of(Question({"": "alice"}), [given]) == lines


def test_ids_and_tokens_are_shown_if_they_are_needed():
    given = [answer(Status.AUTHORIZED, "a")]

    assert text_of(Question({"": "al ice", "d": "b"}, with_ids=True), given).endswith("TOKEN:g:a\nID:al+ice\nID:b\n")
    assert text_of(Question({"": "alice"}, with_ids=True, with_tokens=False), given) == "ID:alice\n"
    assert text_of(Question({"": "alice"}, with_tokens=False), given) == ""


@each_row(
    ("query", "users"),
    [
        ({"username": "a"}, {"": "a"}),
        ({"username": "a", "domain": "d"}, {"d": "a"}),
        ({"username_0": "a", "domain_0": "d", "username_1": "b"}, {"d": "a", "": "b"}),
        ({"username": "a", "username_0": "b", "domain_0": "d"}, {"": "a", "d": "b"}),
        ({"username_10": "ten", "username_9": "nine"}, {"": "ten"}),
        ({"username": "a", "unknown": "x"}, {"": "a"}),
    ],
)
def test_a_question_has_a_user_for_each_domain(query, users):
    assert read_question(query.items()).users == users


@each_row(
    ("query", "fields"),
    [
        ({}, {"username"}),
        ({"domain": "d"}, {"username"}),
        ({"username": ""}, {"username"}),
        ({"username_0": "x" * 1_001}, {"username_0"}),
        ({"username": "a", "aclneeded": "maybe"}, {"aclneeded"}),
        ({"username": "a", "idneeded": "1"}, {"idneeded"}),
        ({f"username_{n}": "a" for n in range(101)} | {f"domain_{n}": f"{n}" for n in range(101)}, {"username"}),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_question_without_a_user_or_with_invalid_parameters_is_refused(query, fields):
    with pytest.raises(Invalid) as refused:
        read_question(query.items())

    assert set(refused.value.problems) == fields


@each_row(
    ("pattern", "replacement", "user", "mapped"),
    [
        ("(.+)@example\\.org", "$(1)", "alice@example.org", "alice"),
        ("(.+)@example\\.org", "EX\\$(1u)", "alice@example.org", "EX\\ALICE"),
        ("(.+)@(.+)", "$(2l)/$(1)", "Al@EX.org", "ex.org/Al"),
        ("a(b)?", "<$(1)>", "a", "<>"),
        (".*", "$(0)", "same", "same"),
        ("alice", "x", "malice", None),
        ("(a*)*b", "$(1)", "a" * 1_000, None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_regular_expression_maps_the_whole_name(pattern, replacement, user, mapped):
    values = {"pattern": pattern, "replacement": replacement}
    assert MAPPER.problems(values) == {}

    assert asyncio.run(MAPPER.open(values, Limits()).map(user)) == mapped


@each_row(
    ("values", "field"),
    [
        ({"pattern": "(", "replacement": "x"}, "pattern"),
        ({"pattern": "(a)\\1", "replacement": "x"}, "pattern"),
        ({"pattern": "a" * 1_001, "replacement": "x"}, "pattern"),
        ({"pattern": "a", "replacement": "$(1)"}, "replacement"),
        ({"pattern": "a", "replacement": ""}, "replacement"),
        ({"pattern": "a"}, "replacement"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_an_invalid_pattern_or_replacement_of_a_mapping_is_refused(values, field):
    assert list(MAPPER.problems(values)) == [field]
