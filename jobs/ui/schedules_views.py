"""The pages of the schedules of all jobs: a list, and a calendar with past runs and future starts."""

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Final

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from jobs.lifecycle.job import StartMethod
from jobs.lifecycle.schedule_text import window_in_words
from jobs.models import Job
from jobs.queries.jobs.schedule_calendar import FIRST_DAY, LAST_DAY, ComingStart, Day, StartedRun, read_calendar
from jobs.queries.jobs.schedules import MOST, ScheduleLine, SkipReason, list_schedules
from jobs.ui.pages import page
from jobs.ui.runs_views import TONES
from jobs.verbs import schedules as schedule_verbs
from jobs.verbs.control import MAY_CONTROL
from jobs.words.explanations import explain_end
from jobs.words.schedules import show_opening
from nodes.database.clock import read_clock
from nodes.errors import NotDone
from nodes.web import formats
from nodes.web.pages import user_with_permission
from nodes.web.translated_words import translated

# Sentences about the effect of a window that opens during a run.
_OVERLAPS: Final = {
    StartMethod.WINDOW_BEGIN: gettext_lazy("Skip: a window that opens during a run starts nothing."),
    StartMethod.WINDOW_INSIDE: gettext_lazy("Repeat: after a run, the job starts again while a window is open."),
}
_WHY_SKIPPED: Final = {
    SkipReason.PAUSED: gettext_lazy("The schedule was paused."),
    SkipReason.STILL_RUNS: gettext_lazy("The job was still running."),
    SkipReason.NO_MANAGER: gettext_lazy("No manager could start the job in this window."),
}
_WEEK: Final = dt.timedelta(days=7)
# Largest number of runs, and of starts, that each day of a calendar shows, for a calendar of a week and of a month.
_SHOWN: Final = {"week": 20, "month": 4}


class CalendarForm(forms.Form):
    """The unit of the calendar, and a day of it, as parameters of its address."""

    unit = forms.ChoiceField(choices=[("week", ""), ("month", "")], required=False)
    day = forms.DateField(required=False, input_formats=["%Y-%m-%d"])

    def clean_day(self) -> dt.date | None:
        day: dt.date | None = self.cleaned_data["day"]
        if day is not None and not FIRST_DAY <= day <= LAST_DAY:
            raise forms.ValidationError(_("Choose a day of the years 2000 to 2198."))
        return day


@page
@require_safe
def schedules(request: HttpRequest) -> HttpResponse:
    """Show the jobs with a schedule. The job with the next start is the first."""
    now = read_clock()
    found = list_schedules(now=now)
    context = {
        "rows": [_schedule_row(line, now=now) for line in found.lines],
        "more": _("Only the %(n)d schedules that are checked next are shown.") % {"n": MOST} if found.has_more else "",
    }
    return render(request, "ui/schedules.html", context)


@page
@require_POST
def pause_schedule(request: HttpRequest) -> HttpResponse:
    """Pause the schedule of a job, or all of them."""
    return _change_schedules(request, one=schedule_verbs.pause, every=schedule_verbs.pause_all, said=_("Paused"))


@page
@require_POST
def resume_schedule(request: HttpRequest) -> HttpResponse:
    """Resume the schedule of a job, or all of them."""
    return _change_schedules(request, one=schedule_verbs.resume, every=schedule_verbs.resume_all, said=_("Resumed"))


def _change_schedules(
    request: HttpRequest, *, one: Callable[..., Job], every: Callable[..., int], said: str
) -> HttpResponse:
    made_by, now = user_with_permission(request, MAY_CONTROL), read_clock()
    named = request.POST.get("job", "")
    try:
        if named == "all":
            messages.success(
                request, _("%(said)s schedules: %(n)d.") % {"said": said, "n": every(made_by=made_by, now=now)}
            )
        elif named.isdecimal() and len(named) < 19:
            job = one(int(named), made_by=made_by, now=now)
            messages.success(request, _("%(said)s: the schedule of %(job)s.") % {"said": said, "job": job.name})
        else:
            raise Http404(_("This action does not exist. Reload the page."))
    except NotDone as refused:
        messages.warning(request, str(refused))
    return redirect("schedules")


@page
@require_safe
def calendar(request: HttpRequest) -> HttpResponse:
    """Show a week or a month: the runs that started on each day, and the future starts."""
    now = read_clock()
    form = CalendarForm(request.GET)
    is_valid = form.is_valid()
    unit = form.cleaned_data.get("unit") or "week"
    day = form.cleaned_data.get("day") or now.astimezone(dt.UTC).date()
    first, days, before, after = _month(day) if unit == "month" else _week(day)
    found = read_calendar(first, days=days, shown=_SHOWN[unit], now=now)
    context = {
        "problems": [] if is_valid else [error for errors in form.errors.values() for error in errors],
        "unit": unit,
        "day": day,
        "title": f"{day:%Y-%m}" if unit == "month" else _("Week of %(day)s") % {"day": f"{first:%Y-%m-%d}"},
        "before": before,
        "after": after,
        "days": [_day_row(one, month=day.month if unit == "month" else None, now=now) for one in found.days],
        "weekdays": [
            *(_("Monday"), _("Tuesday"), _("Wednesday"), _("Thursday"), _("Friday"), _("Saturday"), _("Sunday"))
        ],
        "is_complete": found.is_complete,
    }
    return render(request, "ui/schedule_calendar.html", context, status=200 if is_valid else 400)


def _week(day: dt.date) -> tuple[dt.date, int, dt.date, dt.date]:
    """Return the first day of a week, the number of its days, a day of the week before, and a day of the week after."""
    first = day - dt.timedelta(days=day.weekday())
    return first, 7, first - _WEEK, first + _WEEK


def _month(day: dt.date) -> tuple[dt.date, int, dt.date, dt.date]:
    """
    Return the first day of a month's first week, the number of days in whole weeks, and a day of the months before and
    after.
    """
    begins = day.replace(day=1)
    after = (begins + dt.timedelta(days=31)).replace(day=1)
    first = begins - dt.timedelta(days=begins.weekday())
    days = (after - first).days
    return first, days + -days % 7, (begins - dt.timedelta(days=1)).replace(day=1), after


def _day_row(day: Day, *, month: int | None, now: dt.datetime) -> Mapping[str, object]:
    ends = dt.datetime.combine(day.date, dt.time(), tzinfo=dt.UTC) + dt.timedelta(days=1)
    return {
        "date": f"{day.date:%Y-%m-%d}",
        "number": day.date.day,
        "weekday": day.date.weekday(),
        "is_today": day.date == now.astimezone(dt.UTC).date(),
        "is_outside": month is not None and day.date.month != month,
        "entries": [*(_run_entry(run) for run in day.runs), *(_start_entry(start) for start in day.starts)],
        # The link leads to the list of runs that started before the end of the day.
        "more_runs": f"{reverse('runs')}?after={int(ends.timestamp()) * 1_000_000}.0" if day.more_runs else "",
        "more_starts": formats.more(day.more_starts),
    }


def _run_entry(run: StartedRun) -> Mapping[str, str]:
    result = explain_end(run.run_end) if run.is_over else _("running")
    is_failed = 0 < run.documents == run.failed
    return {
        "at": f"{run.started_at.astimezone(dt.UTC):%H:%M}",
        "job": run.job_name,
        "address": reverse("run", args=[run.id]),
        "tone": ("failed" if is_failed else TONES.get(run.run_end, "quiet")) if run.is_over else "working",
        "says": _("run %(run)d: %(result)s") % {"run": run.run_no, "result": result},
    }


def _start_entry(start: ComingStart) -> Mapping[str, str]:
    return {
        "at": f"{start.at.astimezone(dt.UTC):%H:%M}",
        "job": start.job_name,
        "address": reverse("job", args=[start.job_id]),
        "tone": "",
        "says": _("starts") if start.starts == 1 else _("starts %(n)d times") % {"n": start.starts},
    }


def _schedule_row(line: ScheduleLine, *, now: dt.datetime) -> Mapping[str, object]:
    is_paused = line.paused_at is not None
    coming = [show_opening(opening, window) for opening, window in line.coming]
    return {
        "key": line.id,
        "job": line.name,
        "address": reverse("job", args=[line.id]),
        "status": translated(line.status),
        "tone": "working" if line.runs else "quiet",
        "next": _("paused") if is_paused else coming[0] if coming else _("never"),
        "until": formats.time_until(line.coming[0][0], now=now) if line.coming and not is_paused else "",
        "later": () if is_paused else coming[1:],
        "windows": [window_in_words(window) for window in line.windows],
        "overlap": _OVERLAPS.get(line.method, ""),
        "skipped": [
            {"at": formats.moment(skipped.at, now=now), "why": _WHY_SKIPPED[skipped.reason]} for skipped in line.skipped
        ],
        "paused": formats.moment(line.paused_at, now=now) if line.paused_at else "",
        "paused_by": line.paused_by,
    }
