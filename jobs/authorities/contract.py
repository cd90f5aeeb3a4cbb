"""
The contract of ManifoldCF's authority service: the parameters of a question, and the lines of its answer.

Every text of a line is percent-encoded as by Java's URLEncoder, so a line break in a name or token cannot add a line.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote_plus

from jobs.authorities.service.plan import Answer
from jobs.connectors.authority.kind import DENY_TOKEN, MOST_OF_A_NAME, Status
from nodes.errors import Invalid

# Largest number of domains in one question.
_MOST_USERS: Final = 100
_NUMBERED: Final = re.compile(r"(username|domain)_([0-9]{1,4})")
_FLAGS: Final = {"true": True, "false": False}
_WORDS: Final = {
    Status.AUTHORIZED: "AUTHORIZED",
    Status.UNREACHABLE: "UNREACHABLEAUTHORITY",
    Status.UNAUTHORIZED: "UNAUTHORIZED",
    Status.USER_NOT_FOUND: "USERNOTFOUND",
}
CONTENT_TYPE: Final = "text/plain; charset=ISO-8859-1"


@dataclass(frozen=True, slots=True)
class Question:
    """A question: the user of each domain, and the wanted parts of the answer."""

    users: Mapping[str, str]
    with_ids: bool = False
    with_tokens: bool = True


def read_question(parameters: Iterable[tuple[str, str]], *, is_strict: bool = False) -> Question:
    """
    Return the question that the parameters of a request ask.

    If a domain has several users, the last one counts, as in ManifoldCF. `is_strict` refuses unknown parameters.

    Raises:
        Invalid: there is no user, or a parameter is invalid.
    """
    given = dict(parameters)
    problems: dict[str, list[str]] = {}
    pairs = [("", "username", "domain")]
    pairs += [
        (found[2], name, f"domain_{found[2]}")
        for name in given
        if (found := _NUMBERED.fullmatch(name)) and found[1] == "username"
    ]
    users: dict[str, str] = {}
    for _number, user, domain in sorted(pairs, key=lambda pair: int(pair[0] or -1)):
        if user not in given:
            continue
        name = given[user]
        if not name or len(name) > MOST_OF_A_NAME:
            problems[user] = [f"Write the name of a user: 1 to {MOST_OF_A_NAME} characters."]
        users[given.get(domain, "")] = name
    for name in ("idneeded", "aclneeded"):
        if given.get(name, "true").lower() not in _FLAGS:
            problems[name] = ["Write true or false."]
    if is_strict:
        known = {"username", "domain", "idneeded", "aclneeded"}
        unknown = [name for name in given if name not in known and not _NUMBERED.fullmatch(name)]
        problems |= {
            name: [
                "Unknown parameter; there are username, domain, username_0, domain_0 and so on, idneeded, aclneeded."
            ]
            for name in unknown
        }
    if not users:
        problems.setdefault("username", ["Write the name of a user as username, or as username_0 with domain_0."])
    if len(users) > _MOST_USERS:
        problems["username"] = [f"Ask about at most {_MOST_USERS} domains."]
    if problems:
        raise Invalid(problems)
    return Question(
        users,
        with_ids=_FLAGS[given.get("idneeded", "false").lower()],
        with_tokens=_FLAGS[given.get("aclneeded", "true").lower()],
    )


def tokens_shown(answer: Answer) -> tuple[str, ...]:
    """Return the tokens of an answer. An answer that is not authorized has only the deny token."""
    return answer.access.tokens if answer.access.status is Status.AUTHORIZED else (DENY_TOKEN,)


def lines_of(question: Question, answers: Iterable[Answer]) -> Iterator[str]:
    """Yield the lines of the answer to a question, each with its line break: a status and tokens of each authority."""
    for answer in answers:
        if question.with_tokens:
            yield f"{_WORDS[answer.access.status]}:{_encoded(answer.authority.name)}\n"
            group = _encoded(answer.authority.group)
            yield from (f"TOKEN:{group}:{_encoded(token)}\n" for token in tokens_shown(answer))
    if question.with_ids:
        yield from (f"ID:{_encoded(user)}\n" for user in dict.fromkeys(question.users.values()))


def text_of(question: Question, answers: Iterable[Answer]) -> str:
    """Return the whole answer as text."""
    return "".join(lines_of(question, answers))


def _encoded(text: str) -> str:
    return quote_plus(text, safe="*").replace("~", "%7E")
