"""The texts of the page of one host for its webmaster."""

import datetime as dt
from collections.abc import Mapping
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.connectors.repository.web.robots_rules import name_of
from jobs.settings.table import ROBOTS_NAME, USER_AGENT
from jobs.settings.webmasters import CONTACT, OPERATOR
from jobs.ui.week_shown import week_chart, week_shown
from jobs.webmasters.figures import Figures, InForce, Reason
from jobs.words.codes import explain_code
from jobs.words.limits import limits_in_words
from nodes.settings.running import current
from nodes.web import formats
from nodes.web.screens import Record

_REASONS: Final[Mapping[Reason, str | Promise]] = {
    Reason.STOPPED: gettext_lazy("The operator stopped all requests to this host."),
    Reason.DENIED: gettext_lazy("A rule of the operator forbids requests to this host."),
    Reason.WEBMASTER: gettext_lazy("A webmaster of this host asked for this limit."),
    Reason.ROBOTS: gettext_lazy("The Crawl-delay in robots.txt of this host sets this limit."),
    Reason.OPERATOR: gettext_lazy("The operator set this limit."),
    Reason.USUAL: gettext_lazy("This is the usual limit of the crawler."),
}


def crawler() -> Record:
    """Return the facts about the crawler and its operator, from the settings."""
    values = current()
    agent = values[USER_AGENT]
    name = values[ROBOTS_NAME] or name_of(agent)
    return {
        "operator": values[OPERATOR],
        "contact": values[CONTACT],
        "user_agent": agent,
        "robots_name": name,
        "robots_rule": f"User-agent: {name}\nCrawl-delay: 10",
    }


def figures_shown(figures: Figures) -> Record:
    now = figures.read_at
    return {
        "requests": formats.number(figures.requests),
        "read": formats.size(figures.bytes_read),
        "until": formats.moment(figures.counted_until, now=now),
        "chart": week_chart(figures.hours),
        "hours": week_shown(figures.hours, now=now),
        "limit": "" if figures.in_force is None else limit_in_words(figures.in_force),
        "reason": "" if figures.in_force is None else _REASONS[figures.in_force.reason],
        "back_off": _back_off(figures.in_force, now=now),
        "answers_since": formats.moment(figures.answers.since, now=now),
        "evidence": figures.evidence.hash if figures.evidence else "",
        "codes": [
            {"code": code, "count": formats.number(count), "meaning": explain_code(code)}
            for code, count in figures.answers.by_code.items()
        ],
    }


def limit_in_words(in_force: InForce) -> str:
    """Return the limit as a phrase, such as “1 at a time, one every 10 s”."""
    return _("no requests") if in_force.is_closed else limits_in_words(in_force.limits)


def _back_off(in_force: InForce | None, *, now: dt.datetime) -> str:
    if in_force is None or in_force.back_off_until is None:
        return ""
    until = formats.moment(in_force.back_off_until, now=now)
    return _("The host answered 429 or 503, so the crawler sends no request until %(until)s UTC.") % {"until": until}
