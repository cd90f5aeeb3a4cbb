"""Lines about jobs that missed a window of their schedule, and jobs that no manager starts in their open window."""

import datetime as dt
from collections.abc import Sequence
from typing import Final

from django.db import connection
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.attention.lines import SHOWN, AttentionLine
from jobs.lifecycle import schedule
from jobs.lifecycle.job import StartMethod
from jobs.models import Job
from jobs.words.schedules import show_opening

_KIND: Final = "schedule_missed"
# Delay below which a start does not count as missed. Normally, jobs start within a second.
_LAG: Final = dt.timedelta(minutes=1)
# Largest number of overdue schedules that are examined. There are many only if no manager runs.
_EXAMINED: Final = 200

_WAIT: Final = """
(phase = 'inactive' AND start_method <> 'manual' AND schedule_paused_at IS NULL OR phase = 'active' AND "window" <> 'inside')
"""
# `_MISSED` finds windows that a manager has recorded as missed. `_OVERDUE` finds schedules that no manager has checked
# in time.
_MISSED: Final = f"""
SELECT id FROM jobs_job WHERE missed_window_at IS NOT NULL AND {_WAIT}
"""
_OVERDUE: Final = f"""
(SELECT id FROM jobs_job WHERE {_WAIT} AND schedule_due_at IS NULL AND schedule_checked_at < %(before)s LIMIT %(examined)s)
 UNION ALL
(SELECT id FROM jobs_job WHERE {_WAIT} AND schedule_due_at < %(before)s ORDER BY schedule_due_at LIMIT %(examined)s)
"""


def missed_schedules(now: dt.datetime) -> list[AttentionLine]:
    """Return a line for each job that missed a window, or that no manager runs in its open window."""
    ids = _ids(f"{_MISSED} ORDER BY missed_window_at LIMIT %(examined)s", now=now)
    ids += [id_ for id_ in _ids(_OVERDUE, now=now) if id_ not in ids]
    if not ids:
        return []
    jobs = Job.objects.filter(pk__in=ids).prefetch_related("windows").order_by("pk")
    lines = [line for job in jobs if (line := _of_job(job, now=now)) is not None]
    shown, hidden = lines[:SHOWN], len(lines) - SHOWN
    return [*shown, _more(hidden)] if hidden > 0 else shown


def _of_job(job: Job, *, now: dt.datetime) -> AttentionLine | None:
    windows = [window.times for window in job.windows.all()]
    method = StartMethod(job.start_method)
    opened = schedule.opening_at(windows, method=method, checked_at=job.schedule_checked_at, now=now)
    if opened is not None and opened.began_at < now - _LAG:
        sentence = _(
            "The window of job %(job)s is open, but no manager has started the job. Check that a manager runs."
        )
        return _line(job, sentence, since=opened.began_at)
    missed = schedule.closed_opening_of(windows, after=job.waits_since, now=now)
    since = missed[0] if missed else job.missed_window_at
    if since is None or opened is not None:
        return None
    sentence = _("Job %(job)s missed its window. Start the job, or wait for its next window: %(next)s.")
    return _line(job, sentence, since=since, coming=_next(windows, now=now))


def _line(job: Job, sentence: str, *, since: dt.datetime, coming: str = "") -> AttentionLine:
    return AttentionLine(
        kind=_KIND,
        key=str(job.pk),
        subject=job.name,
        sentence=sentence % {"job": job.name, "next": coming},
        since=since,
        link=reverse("job", args=[job.pk]),
    )


def _next(windows: Sequence[schedule.Window], *, now: dt.datetime) -> str:
    coming = schedule.next_opening_of(windows, after=now)
    return show_opening(*coming) if coming else _("it has none")


def _more(hidden: int) -> AttentionLine:
    sentence = ngettext("%(n)d more job missed a window.", "%(n)d more jobs missed a window.", hidden) % {"n": hidden}
    return AttentionLine(
        kind=_KIND, key="more", subject=_("Jobs"), sentence=sentence, since=None, link=reverse("overview")
    )


def _ids(query: str, *, now: dt.datetime) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(query, {"before": now - _LAG, "examined": _EXAMINED})
        return [row[0] for row in cursor.fetchall()]
