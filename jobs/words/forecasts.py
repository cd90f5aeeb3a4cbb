"""The forecast of the end of a run in sentences."""

import datetime as dt
from collections.abc import Sequence

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.queries.jobs.forecast import RunForecast
from nodes.web import formats


def sentence(forecast: RunForecast | None, *, closed: Sequence[str], now: dt.datetime) -> str:
    """
    Return the likely end, its band, and the effect of more workers.

    Without a forecast, return a sentence about the `closed` hosts that keep the run from ending; "" if there are none.
    """
    if forecast is None:
        return _without_end(closed)
    end = _("Ends at about %(likely)s UTC, with a chance of 80 %% between %(soonest)s and %(latest)s UTC.") % {
        "likely": formats.moment(forecast.likely, now=now),
        "soonest": formats.moment(forecast.soonest, now=now),
        "latest": formats.moment(forecast.latest, now=now),
    }
    gain = (
        _("Twice as many workers would end the run sooner.")
        if forecast.more_workers_are_a_gain
        else _("Twice as many workers would not end the run sooner, because the hosts are the limit.")
        if forecast.hosts_are_the_limit
        else _("Twice as many workers would not end the run sooner.")
    )
    return f"{end} {gain}"


def _without_end(closed: Sequence[str]) -> str:
    if not closed:
        return ""
    others = len(closed) - 1
    if not others:
        return _("No end is forecast: documents wait for %(host)s, which gets no requests now.") % {"host": closed[0]}
    said = ngettext(
        "No end is forecast: documents wait for %(host)s and %(n)d more host, which get no requests now.",
        "No end is forecast: documents wait for %(host)s and %(n)d more hosts, which get no requests now.",
        others,
    )
    return said % {"host": closed[0], "n": others}
