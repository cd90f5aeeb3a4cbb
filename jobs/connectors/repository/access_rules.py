"""
The access rules of a job: which tokens may see the documents whose identifiers match a pattern.

The first rule that matches a document replaces what its source says about it, so a rule for all documents forces their
access. A document without a rule keeps the access that its connector reports: for a file its permissions, for a web
page none.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from jobs.connectors.repository.access import Access, JobAccess, Level
from jobs.connectors.repository.web.scope import BadPattern, compile_pattern

MOST_RULES: Final = 1_000
# Largest number of tokens of a rule, and of characters of a token.
MOST_TOKENS: Final = 1_000
LONGEST_TOKEN: Final = 1_000
_FIELDS: Final = frozenset({"pattern", "allow", "deny"})

Problems = dict[str, list[str]]


def read_rules(stored: Iterable[Mapping[str, Any]], *, group: str) -> JobAccess:
    """
    Return the access of a job with these stored rules.

    Raises:
        ValueError: a stored rule is no longer valid.
    """
    rules = [
        (compile_pattern(rule["pattern"]), Access(Level(tuple(rule.get("allow", ())), tuple(rule.get("deny", ())))))
        for rule in stored
    ]
    return JobAccess(group, rules)


def check_rules(given: object) -> Problems:
    """Return the problems of given rules by their place: `""` for the whole list, `0.pattern` for a field of a rule."""
    if not isinstance(given, list):
        return {"": ["Write a list of rules, each with a pattern and tokens."]}
    if len(given) > MOST_RULES:
        return {"": [f"A job has at most {MOST_RULES:,} access rules. Join some patterns."]}
    problems: Problems = {}
    for place, rule in enumerate(given):
        problems |= {f"{place}{name and '.'}{name}": said for name, said in _check_rule(rule).items()}
    return problems


def as_stored(given: object) -> Any:  # noqa: ANN401 (what is no list of rules stays as it is)
    """Return given rules with all their fields, so that equal rules are equal values."""
    if not isinstance(given, list) or not all(isinstance(rule, Mapping) for rule in given):
        return given
    return [{"pattern": rule.get("pattern"), "allow": [], "deny": [], **rule} for rule in given]


def _check_rule(rule: object) -> Problems:
    if not isinstance(rule, Mapping):
        return {"": ["Write an object with a pattern, and lists of tokens: allow, deny."]}
    problems: Problems = {str(name): ["Unknown. A rule has pattern, allow and deny."] for name in rule.keys() - _FIELDS}
    pattern = rule.get("pattern")
    if not isinstance(pattern, str) or not pattern:
        problems["pattern"] = ["Write a pattern, such as /private/, or . for all documents."]
    else:
        try:
            compile_pattern(pattern)
        except BadPattern as error:
            problems["pattern"] = [f"{error}."]
    for name in ("allow", "deny"):
        if said := why_no_tokens(rule.get(name, [])):
            problems[name] = [said]
    if not problems and rule.get("deny") and not rule.get("allow"):
        problems["allow"] = ["Without a token that allows, no user sees these documents. Add one, or exclude them."]
    return problems


def why_no_tokens(given: object) -> str:
    """Return the reason why this is no list of tokens, as a sentence; "" if it is one."""
    if not isinstance(given, list) or not all(isinstance(token, str) for token in given):
        return "Write a list of tokens."
    if len(given) > MOST_TOKENS:
        return f"A rule has at most {MOST_TOKENS:,} tokens."
    wrong = next((token for token in given if not token.strip() or not token.isprintable()), None)
    if wrong is not None:
        return f"{wrong!r} is no token. Write printable characters."
    if any(len(token) > LONGEST_TOKEN for token in given):
        return f"A token has at most {LONGEST_TOKEN:,} characters."
    return ""
