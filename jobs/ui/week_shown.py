"""The table and the chart of a week of a host: its rate and its limit in each hour."""

import datetime as dt
import json
from collections.abc import Callable, Sequence

from django.utils.translation import gettext as _

from jobs.queries.hosts.week import Hour
from nodes.web import formats
from nodes.web.screens import Record


def week_chart(hours: Sequence[Hour]) -> str:
    """Return the input of `static/js/chart.js`; '' without hours."""
    if not hours:
        return ""
    series: list[Record] = [
        {"label": _("Starts per second"), "values": [round(hour.starts_per_second, 4) for hour in hours]}
    ]
    allowed = [hour.allowed_starts_per_second for hour in hours]
    if any(rate is not None for rate in allowed):
        series.append({"label": _("Allowed"), "values": allowed, "tone": "excluded", "line": True})
    # Labels always have the date, even for hours of today, because the chart shows several days.
    return json.dumps({"labels": [f"{hour.at:%Y-%m-%d %H:%M}" for hour in hours], "series": series})


def week_shown(hours: Sequence[Hour], *, now: dt.datetime) -> list[Record]:
    """Return the rows of the hours with requests, the newest first."""
    return [
        {
            "at": formats.moment(hour.at, now=now),
            "starts": formats.number(hour.starts),
            "rate": formats.rate(hour.starts_per_second),
            "allowed": _limit(hour.allowed_starts_per_second, formats.rate),
            "read": formats.size(round(hour.bytes_per_second)),
            "allowed_bytes": _limit(hour.allowed_bytes_per_second, lambda most: formats.size(round(most))),
        }
        for hour in reversed(hours)
        if hour.was_requested
    ]


def _limit(most: float | None, as_text: Callable[[float], str]) -> str:
    return _("no limit") if most is None else as_text(most)
