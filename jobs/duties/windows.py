"""Windows: jobs start when their schedule says so, wait when their window is over, and go on in the next."""

import datetime as dt
import logging
from typing import Final, LiteralString

from jobs.duties.context import Pass
from jobs.duties.moves import begin_run, move, say_why
from jobs.lifecycle import schedule
from jobs.lifecycle.job import Phase, StartMethod
from jobs.lifecycle.job import Window as Place
from jobs.models import Job
from jobs.queue.rows import named_rows
from jobs.runs import InvalidJob

logger = logging.getLogger(__name__)
# Those that may start, those whose window is over, and those that wait for the next.
SCHEDULED_JOBS: Final[LiteralString] = """
SELECT job.id FROM jobs_job AS job
 WHERE job.node_scope = %(scope)s AND job.stop_request = 'none'
   AND (job.phase = 'inactive' AND job.start_method <> 'manual'
        OR job.phase = 'active' AND (job."window" <> 'inside' OR job.window_ends_at <= %(now)s))
"""


def mind_windows(at: Pass) -> int:
    """Start, hold and let go on what the schedules say; returns how many jobs moved."""
    with named_rows(at.connection) as cursor:
        scheduled = [row.id for row in cursor.execute(SCHEDULED_JOBS, {"scope": at.scope, "now": at.now})]
    moved = 0
    for job in Job.objects.filter(pk__in=scheduled).order_by("pk").prefetch_related("windows"):
        windows = [window.times for window in job.windows.all()]
        if job.phase == Phase.INACTIVE:
            moved += _start(at, job, windows)
        elif job.window == Place.INSIDE:
            moved += _wait(at, job, windows)
        else:
            moved += _go_on(at, job, windows)
    return moved


def _opening(at: Pass, job: Job, windows: list[schedule.Window]) -> schedule.Opening | None:
    return schedule.opening_at(
        windows, method=StartMethod(job.start_method), checked_at=job.schedule_checked_at, now=at.now
    )


def _start(at: Pass, job: Job, windows: list[schedule.Window]) -> bool:
    opening = _opening(at, job, windows)
    if opening is None:
        return False
    facts = {"minimal": opening.minimal, "window_ends_at": opening.ends_at, "schedule_checked_at": at.now}
    try:
        return begin_run(at, job.pk, "begin window", facts=facts)
    except InvalidJob as invalid:
        logger.warning("the schedule of job %s cannot start it: %s", job.name, invalid)
        Job.objects.filter(pk=job.pk).update(schedule_checked_at=at.now, reason=str(invalid))
        return False


def _wait(at: Pass, job: Job, windows: list[schedule.Window]) -> bool:
    """The window is over: another one that is open takes its place, or the job waits for the next."""
    long_ago = at.now - max((window.duration or dt.timedelta() for window in windows), default=dt.timedelta())
    still = schedule.opening_at(windows, method=StartMethod.WINDOW_BEGIN, checked_at=long_ago, now=at.now)
    if still is not None:
        Job.objects.filter(pk=job.pk).update(window_ends_at=still.ends_at)
        return True
    facts = {"window_ends_at": None, "schedule_checked_at": at.now}
    return move(at, job.pk, "wait", facts=facts, reason=_why_it_waits(windows, at))


def _go_on(at: Pass, job: Job, windows: list[schedule.Window]) -> bool:
    opening = _opening(at, job, windows)
    if opening is not None:
        return move(at, job.pk, "unwait", facts={"window_ends_at": opening.ends_at})
    say_why(job.pk, _why_it_waits(windows, at))
    return False


def _why_it_waits(windows: list[schedule.Window], at: Pass) -> str:
    coming = schedule.next_opening_of(windows, after=at.now)
    if coming is None:
        return "outside its window, and it opens no more"
    return f"outside its window until {schedule.opening_in_words(*coming)}"
