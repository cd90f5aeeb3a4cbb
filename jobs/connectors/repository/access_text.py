"""
Access rules as text, for forms. A rule has a line `for` with its pattern, then a line for each token, or `open`:

    for /private/
    allow cn=editors,dc=example,dc=org
    deny interns
    for .
    open
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jobs.connectors.repository.access_rules import check_rules


def rules_in_words(rules: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of these rules."""
    lines: list[str] = []
    for rule in rules:
        tokens = [f"{verb} {token}" for verb in ("allow", "deny") for token in rule.get(verb, ())]
        lines += [f"for {rule['pattern']}", *(tokens or ["open"])]
    return "\n".join(lines)


def parse_rules(text: str) -> list[dict[str, Any]]:
    """
    Return the rules of a text.

    Raises:
        ValueError: a line is not part of a rule, or a rule is invalid. The message is a sentence.
    """
    rules: list[dict[str, Any]] = []
    is_open: set[int] = set()
    for number, line in enumerate(text.splitlines(), start=1):
        verb, _, rest = line.strip().partition(" ")
        rest = rest.strip()
        if not verb:
            continue
        if verb == "for" and rest:
            rules.append({"pattern": rest, "allow": [], "deny": []})
        elif not rules:
            raise ValueError(f"Line {number}: begin with the pattern of a rule, such as “for /private/”.")
        elif verb in {"allow", "deny"} and rest:
            rules[-1][verb].append(rest)
        elif verb == "open" and not rest:
            is_open.add(len(rules) - 1)
        else:
            raise ValueError(
                f"Line {number} is invalid. Write “for PATTERN”, then “allow TOKEN”, “deny TOKEN” or “open” on lines of their own."
            )
    for place, rule in enumerate(rules):
        has_tokens = bool(rule["allow"] or rule["deny"])
        if has_tokens == (place in is_open):
            raise ValueError(
                f"Rule {place + 1} ({rule['pattern']}): write its tokens, or “open” if all users may see it."
            )
    for field, said in check_rules(rules).items():
        rule_place = field.partition(".")[0]
        raise ValueError(f"Rule {int(rule_place) + 1}: {said[0]}" if rule_place else said[0])
    return rules
