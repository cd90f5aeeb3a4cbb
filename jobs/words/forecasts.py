"""The forecast of the end of a run in sentences."""

import datetime as dt

from django.utils.translation import gettext as _

from jobs.queries.jobs.forecast import RunForecast
from nodes.web import formats


def sentence(forecast: RunForecast | None, *, now: dt.datetime) -> str:
    """Return the likely end, its band, and the effect of more workers; "" without a forecast."""
    if forecast is None:
        return ""
    end = _("Ends at about %(likely)s UTC, with a chance of 80 %% between %(soonest)s and %(latest)s UTC.") % {
        "likely": formats.moment(forecast.likely, now=now),
        "soonest": formats.moment(forecast.soonest, now=now),
        "latest": formats.moment(forecast.latest, now=now),
    }
    gain = (
        _("Twice the workers end it sooner.")
        if forecast.more_workers_are_a_gain
        else _("Twice the workers: no gain, because the hosts are the limit.")
        if forecast.hosts_are_the_limit
        else _("Twice the workers: no gain.")
    )
    return f"{end} {gain}"
