"""The texts about the evidence of a host, and the chart of its last day."""

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from jobs.evidence.coverage import BEGINS, DID_NOT_RECORD, ENDED, RESTORED, WAS_OFF
from jobs.queries.hosts.evidence import ChainState, Minute, is_recorded, moment
from nodes.web import formats
from nodes.web.screens import Record

# Sentences for the reasons of gaps, by the code in a block.
_WHY: Final[Mapping[str, str | Promise]] = {
    BEGINS: gettext_lazy("The record begins here."),
    WAS_OFF: gettext_lazy("The record was off."),
    DID_NOT_RECORD: gettext_lazy("A worker did not report its requests."),
    RESTORED: gettext_lazy("The database was restored."),
    ENDED: gettext_lazy("A worker ended without its last report."),
}


def evidence_shown(state: ChainState | None, *, now: dt.datetime) -> Record | None:
    """Return the section about the chain of a host; None if the host has no chain and evidence is not recorded."""
    if state is None:
        return {"is_empty": True} if is_recorded() else None
    return {
        "is_recorded": is_recorded(),
        "pill": _("broken") if state.problem else _("intact"),
        "tone": "failed" if state.problem else "indexed",
        "says": _("The chain is broken: %(why)s") % {"why": state.problem}
        if state.problem
        else ngettext("The newest block is intact.", "The newest %(n)s blocks are intact.", state.verified)
        % {"n": formats.number(state.verified)},
        "blocks": formats.number(state.head.seq - state.pruned),
        "hash": state.head.hash,
        "until": formats.moment(state.complete_until, now=now),
        "gaps": [
            {
                "since": formats.moment(moment(gap.begin), now=now) if gap.begin else "",
                "until": formats.moment(moment(gap.until), now=now),
                "why": _WHY.get(gap.why, gap.why),
            }
            for gap in state.gaps
        ],
        "chart": _chart(state.minutes),
        "hours": [_hour_row(at, list(minutes), now=now) for at, minutes in groupby(reversed(state.minutes), key=_hour)],
    }


def _chart(minutes: Sequence[Minute]) -> str:
    """Return the input of `static/js/chart.js`: the requests of each minute, and the number that the limit allows."""
    if not minutes:
        return ""
    allowed = [round(60 / minute.gap, 2) if minute.gap else None for minute in minutes]
    series: list[Record] = [{"label": _("Requests per minute"), "values": [minute.requests for minute in minutes]}]
    if any(allowed):
        series.append({"label": _("Allowed"), "values": allowed, "tone": "excluded", "line": True})
    return json.dumps({"labels": [f"{minute.at:%Y-%m-%d %H:%M}" for minute in minutes], "series": series})


def _hour(minute: Minute) -> dt.datetime:
    return minute.at.replace(minute=0)


def _hour_row(at: dt.datetime, minutes: Sequence[Minute], *, now: dt.datetime) -> Record:
    least = min((minute.gap for minute in minutes if minute.gap is not None), default=0.0)
    return {
        "at": formats.moment(at, now=now),
        "requests": formats.number(sum(minute.requests for minute in minutes)),
        "most": formats.number(max(minute.most_in_a_second for minute in minutes)),
        "gap": _("%(n)s s") % {"n": formats.decimal(least, digits=3)} if least else _("no limit"),
        "unanswered": formats.number(sum(minute.unanswered for minute in minutes)),
        "refusals": formats.number(sum(minute.refusals for minute in minutes)),
    }
