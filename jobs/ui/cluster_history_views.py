"""The page of the cluster at a minute of the last 30 days."""

import datetime as dt
from typing import Final

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from jobs.partitions import this_partition
from jobs.queries.cluster.history import read_versions_before
from jobs.queries.cluster.history_of_all import find_default_minute, read_histories
from jobs.ui.cluster_history_screen import address_of_minute, moment_of_address
from jobs.ui.clusters_history_screen import history_screen
from jobs.ui.clusters_screen import partition_in_words
from jobs.ui.pages import page
from jobs.ui.partitions_views import silent_partitions
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
_FIRST_YEAR: Final = 2000
_FORMS: Final = ("%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M")


class MinuteForm(forms.Form):
    """
    The minute to show, in UTC, and the partition, as parameters of the address. Without a partition, the page shows
    all.
    """

    at = forms.CharField(required=False, max_length=30, strip=True)
    partition = forms.CharField(required=False, max_length=100, strip=True)

    def clean_partition(self) -> str:
        name: str = self.cleaned_data["partition"]
        if name and name not in _partitions():
            raise forms.ValidationError(_("There is no partition %(name)s.") % {"name": name})
        return name

    def clean_at(self) -> dt.datetime | None:
        value = self.cleaned_data["at"]
        if not value:
            return None
        for form in _FORMS:
            try:
                found = dt.datetime.strptime(value, form).replace(second=0, tzinfo=dt.UTC)
            except ValueError:
                continue
            # The page links to earlier minutes, so these must be valid dates, too.
            if found.year >= _FIRST_YEAR:
                return found
        raise forms.ValidationError(
            _("“%(value)s” is not a valid time. Write it as 2030-01-31T12:00, in UTC.") % {"value": value}
        )


@page
@require_safe
def cluster_history(request: HttpRequest) -> HttpResponse:
    now = read_clock()
    form = MinuteForm(request.GET)
    is_valid = form.is_valid()
    present = now.astimezone(dt.UTC).replace(second=0, microsecond=0)
    at: dt.datetime = min(form.cleaned_data.get("at") or find_default_minute(present=present), present)
    partition: str = form.cleaned_data.get("partition", "")
    found = read_histories(at, now=now, partition=partition)
    screen = history_screen(found, now=now, partition=partition)
    first = screen["first"]
    steps = [(label, at + step) for label, step in _STEPS]
    context = {
        **screen,
        "problems": [error for errors in form.errors.values() for error in errors],
        "silent": silent_partitions(found.silent, now=now),
        "partition": partition,
        "choices": _choices(at, partition),
        "at": moment_of_address(at),
        "day": f"{at:%Y-%m-%d}",
        "clock": f"{at:%H:%M}",
        "minute": at.hour * 60 + at.minute,
        "last_minute": present.hour * 60 + present.minute if at.date() == present.date() else 24 * 60 - 1,
        "steps": [
            {
                "label": label,
                "address": address_of_minute(to, partition=partition),
                "may": first is not None and first <= to <= present,
            }
            for label, to in steps
        ],
        "first": first and f"{first:%Y-%m-%d %H:%M}",
        "versions": version_rows(read_versions_before(at), now=now),
    }
    return render(request, "ui/cluster_history.html", context, status=200 if is_valid else 400)


def _choices(at: dt.datetime, chosen: str) -> list[dict[str, object]]:
    """
    Return links to the same minute, for all partitions together and for each one; none if there is only one partition.
    """
    names = _partitions()
    return [
        {
            "label": partition_in_words(name) if name else _("All partitions"),
            "address": address_of_minute(at, partition=name),
            "is_shown": name == chosen,
        }
        for name in (("", *names) if names else ())
    ]


def _partitions() -> tuple[str, ...]:
    """Return the names of all partitions in the control partition; none elsewhere."""
    placement = this_partition.placement()
    return tuple(placement.names) if placement is not None and placement.is_control else ()
