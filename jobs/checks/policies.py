"""Checks of throttle policies: errors, and warnings about valid fields that are probably mistakes."""

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ada_url import idna_to_ascii
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.checks.job_options import time_zones
from jobs.lifecycle.limits import COUNTS, LONGEST_GAP, LimitColumns
from jobs.lifecycle.period import Period
from jobs.models.policy import ThrottlePolicy
from jobs.throttling.limits import gap_of
from jobs.throttling.patterns import Patterns
from jobs.throttling.windows import EVERY_DAY, Window, covering, parts_of_the_week

MOST_RULES: Final = 2_000
LONGEST_PATTERN: Final = 300
_LONGEST_NAME: Final = 200
_LABEL: Final = re.compile(r"[^.:]+")
# Warnings about a rate without effect, because the minimum gap is longer, by the period of the rate.
_RATE_WITHOUT_EFFECT: Final = {
    Period.SECOND: gettext_lazy(
        "%(starts)d starts per second mean one every %(rate_gap)s s. The minimum gap of %(gap)s s is longer, "
        "so it applies."
    ),
    Period.MINUTE: gettext_lazy(
        "%(starts)d starts per minute mean one every %(rate_gap)s s. The minimum gap of %(gap)s s is longer, "
        "so it applies."
    ),
    Period.HOUR: gettext_lazy(
        "%(starts)d starts per hour mean one every %(rate_gap)s s. The minimum gap of %(gap)s s is longer, so "
        "it applies."
    ),
    Period.DAY: gettext_lazy(
        "%(starts)d starts per day mean one every %(rate_gap)s s. The minimum gap of %(gap)s s is longer, so "
        "it applies."
    ),
}
# Warnings about a limit of one host without effect, because the limit of all hosts together is lower, by the name of
# the limit.
_TOTAL_BELOW_EACH: Final = {
    "open_requests": gettext_lazy(
        "All hosts together may have %(total)d open requests, so one host never reaches its limit of %(each)d."
    ),
    "bytes_per_second": gettext_lazy(
        "All hosts together may send %(total)d bytes per second, so one host never reaches its limit of %(each)d."
    ),
}


@dataclass(frozen=True, slots=True)
class RuleWanted(LimitColumns):
    """
    A rule as a form, the API or a command gives it, before it is checked; see `ThrottleRule`. Days of a week are
    numbers from 1 (Monday) to 7.
    """

    pattern: str = ""
    days: tuple[int, ...] = EVERY_DAY
    from_time: dt.time | None = None
    to_time: dt.time | None = None
    denies: bool = False

    @property
    def times(self) -> tuple[frozenset[int], dt.time | None, dt.time | None]:
        return frozenset(self.days), self.from_time, self.to_time

    @property
    def is_always_open(self) -> bool:
        return self.times == (frozenset(EVERY_DAY), None, None)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check: problems by field (`rules.0.starts`), and warnings about valid fields."""

    problems: Mapping[str, list[str]] = field(default_factory=dict)
    warnings: Sequence[str] = ()


PolicyOrRule = ThrottlePolicy | RuleWanted


def check(
    policy: ThrottlePolicy, rules: Sequence[RuleWanted], *, unlimited: bool, was_unlimited: bool = False
) -> Checked:
    """
    Check a policy before it is stored, and return its problems or its warnings.

    If open requests are the only limit of the policy or of a rule, `unlimited` must be true, unless the policy
    `was_unlimited` before. It must be false for a policy with a pace.

    The check accepts any valid name: the caller checks whether it is taken.
    """
    problems = {**_check_name(policy), **_check_numbers(policy)}
    if policy.time_zone not in time_zones():
        problems["time_zone"] = [f"There is no time zone {policy.time_zone!r}. Write one like Europe/Berlin."]
    if len(rules) > MOST_RULES:
        problems["rules"] = [
            f"A policy can have at most {MOST_RULES:,} rules, and this one has {len(rules):,}. Remove some."
        ]
        return Checked(problems)
    for place, rule in enumerate(rules):
        found = {**_check_numbers(rule), **_check_rule(rule)}
        problems.update(
            (f"rules.{place}.{name}" if name else f"rules.{place}", messages) for name, messages in found.items()
        )
    if not problems:
        problems.update(_never_reached(rules))
    if not problems and unlimited:
        problems.update(_paced(policy, rules))
    elif not problems and not was_unlimited:
        problems.update(_unlimited(policy, rules))
    return Checked(problems) if problems else Checked(warnings=list(_warnings(policy, rules)))


def _check_name(policy: ThrottlePolicy) -> dict[str, list[str]]:
    if policy.name.strip() and len(policy.name) <= _LONGEST_NAME and policy.name.isprintable():
        return {}
    return {"name": [f"The name of a policy needs 1 to {_LONGEST_NAME} printable characters, not only blanks."]}


# --- Numbers ---------------------------------------------------------------------------------------


def _check_numbers(limited: PolicyOrRule) -> dict[str, list[str]]:
    problems = {}
    for name, (what, most) in COUNTS.items():
        number = getattr(limited, name)
        if number is not None and not 1 <= number <= most:
            problems[name] = [
                f"{number} {what} is not a limit. Write a whole number from 1 to {most}."
                + (" To fetch nothing, write a rule that denies." if number == 0 else "")
            ]
    # A condition that refuses NaN too.
    if limited.min_gap is not None and not 0 <= limited.min_gap <= LONGEST_GAP:
        problems["min_gap"] = [f"{limited.min_gap} is not a gap. Write seconds from 0 to {LONGEST_GAP:g}."]
    return {
        **problems,
        **_check_rate(limited, "starts", "period"),
        **_check_rate(limited, "total_starts", "total_period"),
    }


def _check_rate(limited: PolicyOrRule, starts: str, period: str) -> dict[str, list[str]]:
    number, word = getattr(limited, starts), getattr(limited, period)
    words = ", ".join(Period)
    if word and word not in list(Period):
        return {period: [f"{word!r} is not a period; there are: {words}."]}
    if number is not None and not word:
        return {period: [f"{number} starts need a period. Write one of: {words}."]}
    if number is None and word:
        return {
            starts: [
                f"The period {word} needs a number of starts. Write a whole number from 1, or leave out the period, too."
            ]
        }
    return {}


# --- Rules -----------------------------------------------------------------------------------------


def _check_rule(rule: RuleWanted) -> dict[str, list[str]]:
    return {**_check_pattern(rule.pattern), **_check_times(rule), **_check_values(rule)}


def _check_pattern(pattern: str) -> dict[str, list[str]]:
    why = why_no_pattern(pattern)
    return {"pattern": [why]} if why else {}


def why_no_pattern(pattern: str) -> str:
    """Return the reason why a stored pattern is invalid; "" for a valid one."""
    is_address = "://" in pattern or ("/" in pattern and not pattern.startswith(("/", "*")))
    is_name = pattern.isprintable() and not is_address and not set(" ?") & set(pattern) and not pattern.endswith(".")
    if len(pattern) > LONGEST_PATTERN or not is_name:
        return (
            f"{pattern[:80]!r} cannot be the name of a host. Write a name such as www.example.com, without a scheme or a path. "
            "Add the port if it is not the default of the scheme. A * stands for any characters."
        )
    if not pattern.isascii() and "/" not in pattern:
        return (
            f"{pattern[:80]!r} matches no host, because names of hosts are stored in ASCII. Write each part with * in ASCII, "
            "such as xn--*. A part between two dots without * may have any letters."
        )
    return ""


def _check_times(rule: RuleWanted) -> dict[str, list[str]]:
    problems = {}
    if not rule.days:
        problems["days"] = ["A rule without days never applies. Choose days, or leave the days out for every day."]
    elif not set(rule.days) <= set(EVERY_DAY):
        problems["days"] = ["Write days as numbers from 1 (Monday) to 7 (Sunday)."]
    if (rule.from_time is None) != (rule.to_time is None):
        missing = "from_time" if rule.from_time is None else "to_time"
        problems[missing] = ["A time of day has a beginning and an end. Leave out both for the whole day."]
    elif rule.from_time is not None and rule.from_time == rule.to_time:
        problems["to_time"] = [
            "The end is equal to the beginning, so the rule never applies. Leave out both for the whole day."
        ]
    return problems


def _check_values(rule: RuleWanted) -> dict[str, list[str]]:
    numbers = [name for name in (*COUNTS, "min_gap") if getattr(rule, name) is not None]
    totals = [name for name in numbers if name.startswith("total_")]
    if rule.denies and numbers:
        return {"denies": [f"A rule that denies hosts has no limits. Leave out {', '.join(numbers)}, or do not deny."]}
    if not rule.denies and not numbers:
        return {"": ["The rule changes nothing. Set a limit, or deny the hosts."]}
    if totals and not is_everything(rule.pattern):
        return {
            totals[0]: [
                "A total limits all hosts of the policy together, so only a rule with an empty pattern can have one."
            ]
        }
    return {}


def is_everything(pattern: str) -> bool:
    """True if the pattern means every host."""
    return not pattern.strip("*")


def stored_pattern(pattern: str) -> str:
    """
    Return a typed pattern in its stored form: "" for every host, otherwise as hosts are named.

    Names of hosts are stored in ASCII (`xn--…`), and roots of files, which have a slash, as they are. A label with a
    star cannot be converted to ASCII, and stays.
    """
    pattern = pattern.strip()
    if is_everything(pattern):
        return ""
    if "/" in pattern:
        return pattern
    return _LABEL.sub(lambda label: _in_ascii(label[0]), pattern)


def _in_ascii(label: str) -> str:
    if label.isascii() or "*" in label or not label.isprintable():
        return label
    return idna_to_ascii(label).decode() or label


def _never_reached(rules: Sequence[RuleWanted]) -> dict[str, list[str]]:
    """Return the problems of rules without effect: the rules before them cover all their hosts at all times."""
    problems = {}
    patterns = Patterns(rule.pattern for rule in rules)
    times = parts_of_the_week([Window(rule.days, rule.from_time, rule.to_time) for rule in rules])
    for place, rule in enumerate(rules):
        # A pattern covers another pattern if it matches the text of the other one, in which a star counts as an
        # ordinary letter.
        wider = [other for other in dict.fromkeys(patterns.places_of(rule.pattern)) if other < place]
        found = covering(times[place], [times[other] for other in wider])
        hiding = [wider[other] for other in found or ()]
        if hiding and not _only_denies(rule, [rules[other] for other in hiding]):
            problems[f"rules.{place}"] = [_sentence_of_hidden_rule(hiding)]
    return problems


def _only_denies(rule: RuleWanted, hiding: Sequence[RuleWanted]) -> bool:
    """
    True if both rules only deny hosts, such as a host and its domain. Then the rule does no harm, although it has no
    effect.
    """
    is_named_twice = any(other.pattern.lower() == rule.pattern.lower() for other in hiding)
    return rule.denies and all(other.denies for other in hiding) and not is_named_twice


def _sentence_of_hidden_rule(hiding: Sequence[int]) -> str:
    if len(hiding) == 1:
        who, which = f"rule {hiding[0] + 1} matches", "that rule, or remove one of them"
    else:
        who, which = f"rules {', '.join(str(place + 1) for place in hiding)} together match", "these, or remove it"
    return (
        f"This rule never applies: {who} all of its hosts at all of its times, and the first matching rule applies. "
        f"Move this rule before {which}."
    )


# --- Valid values that are probably mistakes -------------------------------------------------------


def is_unlimited(policy: ThrottlePolicy, rule: RuleWanted | None = None) -> bool:
    """True if hosts have no pace: only open requests limit them, but no gap, rate or bytes."""
    if rule is not None and rule.denies:
        return False
    return _gap(policy, rule) == 0 and not _first(policy, rule, "bytes_per_second")


def _unlimited(policy: ThrottlePolicy, rules: Sequence[RuleWanted]) -> dict[str, list[str]]:
    how = "set a gap, starts per period or bytes per second, or set unlimited to true"
    if is_unlimited(policy):
        return {"unlimited": [f"Nothing would limit the rate of requests to its hosts: {how}."]}
    return {
        f"rules.{place}.min_gap": [f"Nothing would limit the rate of requests to its hosts: {how}."]
        for place, rule in enumerate(rules)
        if is_unlimited(policy, rule)
    }


def _paced(policy: ThrottlePolicy, rules: Sequence[RuleWanted]) -> dict[str, list[str]]:
    """Return the problem of a policy that is marked unlimited, although the policy or its rules pace hosts."""
    if any(is_unlimited(policy, rule) for rule in (None, *rules)):
        return {}
    what = f"a gap of {policy.min_gap:g} s" if policy.min_gap else "a rate" if policy.starts else "a limit of bytes"
    return {
        "unlimited": [f"The policy has {what}, so it is not unlimited: remove that limit, or set unlimited to false."]
    }


def _warnings(policy: ThrottlePolicy, rules: Sequence[RuleWanted]) -> Iterator[str]:
    yield from _warnings_of(policy, None)
    for place, rule in enumerate(rules, start=1):
        if not rule.denies:
            for warning in _warnings_of(policy, rule):
                yield _("Rule %(n)d: %(warning)s") % {"n": place, "warning": warning}
        elif rule.is_always_open and is_everything(rule.pattern) and all(other.denies for other in rules[:place]):
            yield _("Rule %(n)d denies every host at all times.") % {"n": place}


def _warnings_of(policy: ThrottlePolicy, rule: RuleWanted | None) -> Iterator[str]:
    gap, rate_gap = _min_gap(policy, rule), _rate_gap(policy, rule, "")
    said_here = rule or policy
    if rate_gap and gap > rate_gap and said_here.starts is not None:
        yield _RATE_WITHOUT_EFFECT[Period(said_here.period)] % {
            "starts": said_here.starts,
            "rate_gap": f"{rate_gap:g}",
            "gap": f"{gap:g}",
        }
    for name, sentence in _TOTAL_BELOW_EACH.items():
        each, total = _first(policy, rule, name), _first(policy, rule, f"total_{name}")
        if each is not None and total is not None and total < each and _names(rule, name):
            yield sentence % {"total": total, "each": each}
    total_gap = _rate_gap(policy, rule, "total_")
    if total_gap > _gap(policy, rule) and (_names(rule, "starts") or _names(rule, "min_gap")):
        gap_of_each = _gap(policy, rule)
        of_total = (
            _(
                "All hosts together get at most one start every %(total)s s, so one host never gets a start "
                "every %(each)s s."
            )
            if gap_of_each
            else _(
                "All hosts together get at most one start every %(total)s s, so this also limits each host, "
                "although its own rate is unlimited."
            )
        )
        yield of_total % {"total": f"{total_gap:g}", "each": f"{gap_of_each:g}"}


def _names(rule: RuleWanted | None, name: str) -> bool:
    """True if the rule sets this limit or its total. Without a rule, the policy itself is checked."""
    return rule is None or getattr(rule, name) is not None or getattr(rule, f"total_{name}", None) is not None


def _first(policy: ThrottlePolicy, rule: RuleWanted | None, name: str) -> int | None:
    of_rule = None if rule is None else getattr(rule, name)
    number: int | None = getattr(policy, name) if of_rule is None else of_rule
    return number


def _min_gap(policy: ThrottlePolicy, rule: RuleWanted | None) -> float:
    return policy.min_gap if rule is None or rule.min_gap is None else rule.min_gap


def _rate_gap(policy: ThrottlePolicy, rule: RuleWanted | None, prefix: str) -> float:
    limited: PolicyOrRule = policy if rule is None or getattr(rule, f"{prefix}starts") is None else rule
    starts, period = getattr(limited, f"{prefix}starts"), getattr(limited, f"{prefix}period")
    return gap_of(starts, Period(period)) if starts else 0.0


def _gap(policy: ThrottlePolicy, rule: RuleWanted | None) -> float:
    return max(_min_gap(policy, rule), _rate_gap(policy, rule, ""))
