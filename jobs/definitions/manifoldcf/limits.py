"""
ManifoldCF's throttles as a policy. ManifoldCF matches bins by regular expressions, and crawlctl matches hosts by
patterns.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from jobs.definitions.manifoldcf.nodes import Part

# Number of bytes in a kilobyte of ManifoldCF's limits.
_KILOBYTE: Final = 1000
_MINUTE: Final = "minute"
_LITERAL: Final = re.compile(r"(?:[A-Za-z0-9_:-]|\\[.:-]|\.\*)*")


class Limits:
    """The limits of one connection: for every host, and for the hosts of some patterns."""

    def __init__(self) -> None:
        self._by_pattern: dict[str, dict[str, int]] = {}

    def add(
        self, part: Part, expression: str, *, connections: str = "", kilobytes: str = "", fetches: str = ""
    ) -> None:
        """
        Add the limits of a regular expression. If two expressions give the same pattern, the strictest limits apply.
        """
        values = {"open_requests": connections, "bytes_per_second": kilobytes, "starts": fetches}
        given = {name: _whole(part, value) for name, value in values.items() if value.strip()}
        limits = {name: number for name, number in given.items() if number}
        if "bytes_per_second" in limits:
            limits["bytes_per_second"] *= _KILOBYTE
        pattern = host_pattern(expression)
        if pattern is None:
            part.note(f"The expression {expression!r} is not a pattern of host names. Add a rule to the policy.")
            return
        if limits:
            known = self._by_pattern.setdefault(pattern, {})
            known.update({name: min(number, known.get(name, number)) for name, number in limits.items()})

    def policy(self, name: str) -> dict[str, Any] | None:
        """Return the definition of a policy with these limits; None without limits."""
        if not self._by_pattern:
            return None
        usual = self._by_pattern.get("", {})
        # The first rule that matches applies, so a narrow pattern comes before a wide one.
        narrow_first = sorted(
            filter(None, self._by_pattern), key=lambda pattern: (-len(pattern.replace("*", "")), pattern)
        )
        rules = []
        for pattern in narrow_first:
            strictest = self._strictest(pattern)
            others = {limit: number for limit, number in strictest.items() if number != usual.get(limit)}
            if others:
                rules.append({"pattern": pattern, **_rate(others)})
        return {
            "definition": "policy",
            "name": name,
            **_rate(usual),
            **({"rules": rules} if rules else {}),
        }

    def _strictest(self, pattern: str) -> dict[str, int]:
        """
        Return the strictest limits of all patterns that match the hosts of this pattern, because ManifoldCF applies all
        of them.
        """
        found: dict[str, int] = {}
        for wider, limits in self._by_pattern.items():
            if not wider or fnmatchcase(pattern, wider):
                found.update({name: min(number, found.get(name, number)) for name, number in limits.items()})
        return found


def host_pattern(expression: str) -> str | None:
    """Return the host pattern that matches the same hosts as a regular expression; None if no pattern does."""
    inner = expression.strip()
    begins, ends = inner.startswith("^"), inner.endswith("$") and not inner.endswith("\\$")
    inner = inner[begins : len(inner) - ends]
    if not _LITERAL.fullmatch(inner):
        return None
    literal = inner.replace(".*", "*").replace("\\", "").lower()
    pattern = f"{'' if begins else '*'}{literal}{'' if ends else '*'}"
    pattern = re.sub(r"\*+", "*", pattern)
    return "" if pattern == "*" else pattern


def _rate(limits: Mapping[str, int]) -> dict[str, Any]:
    return {**limits, "period": _MINUTE} if "starts" in limits else dict(limits)


def _whole(part: Part, value: str) -> int | None:
    try:
        number = int(float(value))
    except (ValueError, OverflowError):
        number = 0
    if number < 1:
        part.note(f"{value!r} is not a limit.")
        return None
    return number
