"""The page of the cluster at a minute of the last 30 days."""

import datetime as dt
from typing import Final

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from jobs.queries.cluster.history import (
    find_first_minute,
    find_last_minute,
    read_cluster_then,
    read_day,
    read_events_around,
    read_large_events,
    read_versions_before,
)
from jobs.ui.cluster_history_screen import day_chart, events_shown, moment_of_address, then_screen
from jobs.ui.pages import page
from jobs.ui.version_rows import version_rows
from nodes.database.clock import read_clock

_STEPS: Final = (
    (gettext_lazy("1 day earlier"), dt.timedelta(days=-1)),
    (gettext_lazy("1 hour earlier"), dt.timedelta(hours=-1)),
    (gettext_lazy("1 minute earlier"), dt.timedelta(minutes=-1)),
    (gettext_lazy("1 minute later"), dt.timedelta(minutes=1)),
    (gettext_lazy("1 hour later"), dt.timedelta(hours=1)),
    (gettext_lazy("1 day later"), dt.timedelta(days=1)),
)
_FORMS: Final = ("%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M")


class MinuteForm(forms.Form):
    """The minute to show, in UTC, as a parameter of the address."""

    at = forms.CharField(required=False, max_length=30, strip=True)

    def clean_at(self) -> dt.datetime | None:
        value = self.cleaned_data["at"]
        if not value:
            return None
        for form in _FORMS:
            try:
                return dt.datetime.strptime(value, form).replace(second=0, tzinfo=dt.UTC)
            except ValueError:
                continue
        raise forms.ValidationError(
            _("“%(value)s” is not a minute. Write it as 2030-01-31T12:00, in UTC.") % {"value": value}
        )


@page
@require_safe
def cluster_history(request: HttpRequest) -> HttpResponse:
    now = read_clock()
    form = MinuteForm(request.GET)
    is_valid = form.is_valid()
    present = now.astimezone(dt.UTC).replace(second=0, microsecond=0)
    at: dt.datetime = min(form.cleaned_data.get("at") or find_last_minute() or present, present)
    first, then = find_first_minute(), read_cluster_then(at)
    steps = [(label, at + step) for label, step in _STEPS]
    context = {
        "problems": [error for errors in form.errors.values() for error in errors],
        "at": moment_of_address(at),
        "day": f"{at:%Y-%m-%d}",
        "clock": f"{at:%H:%M}",
        "minute": at.hour * 60 + at.minute,
        "last_minute": present.hour * 60 + present.minute if at.date() == present.date() else 24 * 60 - 1,
        "steps": [
            {"label": label, "at": moment_of_address(to), "may": first is not None and first <= to <= present}
            for label, to in steps
        ],
        "first": first and f"{first:%Y-%m-%d %H:%M}",
        "then": None if then is None else then_screen(then),
        "events": events_shown(read_events_around(at), now=now),
        "large_events": events_shown(read_large_events(at.date()), now=now),
        "versions": version_rows(read_versions_before(at), now=now),
        "chart": day_chart(read_day(at.date(), now=now)),
    }
    return render(request, "ui/cluster_history.html", context, status=200 if is_valid else 400)
