"""Freshness goals in sentences."""

import datetime as dt

from django.utils.translation import gettext as _

from jobs.lifecycle.schedule_text import span_in_words
from jobs.queries.jobs.freshness import ACCURACY, GoalLine, SlowHost
from nodes.web import formats

Record = dict[str, object]


def goal_row(line: GoalLine) -> Record:
    """Return the cells of a table row about a goal."""
    state, tone = _state(line)
    return {
        "key": str(line.number),
        "pattern": line.pattern,
        "goal": _("%(percent)s %% within %(span)s")
        % {"percent": f"{100 * line.share:g}", "span": span_in_words(dt.timedelta(seconds=line.within))},
        "documents": formats.number(line.documents),
        "achieved": _share(line.achieved),
        "expected": _share(line.expected),
        "needs": _per_second(line.needs),
        "gets": _per_second(line.gets),
        "state": state,
        "tone": tone,
    }


def slow_host_row(host: SlowHost) -> Record:
    """Return the cells of a table row about a host that is too slow for its goals."""
    key = f"{host.partition}:{host.id}" if host.partition else str(host.id)
    return {"key": key, "says": slow_host(host)}


def slow_host(host: SlowHost) -> str:
    """Return the increase of speed that a host would need, in words."""
    return _("%(host)s: the goals need %(needs)s, the host allows %(allows)s.") % {
        "host": f"{host.name} ({host.partition})" if host.partition else host.name,
        "needs": _per_second(host.needs),
        "allows": _per_second(host.allows),
    }


def _state(line: GoalLine) -> tuple[str, str]:
    if line.is_met is None:
        return _("not measured yet"), "quiet"
    if line.is_met:
        return _("met"), "indexed"
    if line.expected is not None and line.expected < line.share - ACCURACY:
        return _("cannot be met"), "failed"
    return _("not met"), "waiting"


def _share(value: float | None) -> str:
    return formats.UNKNOWN if value is None else formats.share(round(1000 * value), 1000)


def _per_second(value: float | None) -> str:
    return _("%(rate)s/s") % {"rate": formats.rate(value)} if value is not None else formats.UNKNOWN
