"""Windows: jobs start by their schedule, wait when their window ends, and continue in the next one."""

import datetime as dt
import logging
from typing import Final, LiteralString

from django.db import connection, transaction

from jobs.duties.context import Pass
from jobs.duties.moves import begin_run, move, set_reason
from jobs.duties.one_by_one import one_by_one
from jobs.lifecycle import schedule
from jobs.lifecycle.job import Phase, StartMethod
from jobs.lifecycle.job import Window as Place
from jobs.models import Job
from jobs.queue.sql.rows import named_rows
from jobs.state import journal
from nodes.errors import Invalid
from nodes.membership.fences import hold_term

logger = logging.getLogger(__name__)
# Jobs that wait for a window: to start, or to continue.
_WAITS: Final[LiteralString] = """
node_scope = %(scope)s AND stop_request = 'none'
AND (phase = 'inactive' AND start_method <> 'manual' AND schedule_paused_at IS NULL OR phase = 'active' AND "window" <> 'inside')
"""
# Waiting jobs whose schedule is due for a check, and jobs whose window has ended.
SCHEDULED_JOBS: Final[LiteralString] = f"""
SELECT id FROM jobs_job WHERE {_WAITS} AND schedule_due_at IS NULL
 UNION ALL
SELECT id FROM jobs_job WHERE {_WAITS} AND schedule_due_at <= %(now)s
 UNION ALL
SELECT id FROM jobs_job
 WHERE node_scope = %(scope)s AND stop_request = 'none' AND phase = 'active' AND "window" = 'inside' AND window_ends_at <= %(now)s
"""
# A change of the schedule or of the job's state makes a check due immediately.
_SET_NEXT_CHECK: Final[LiteralString] = """
UPDATE jobs_job AS job SET schedule_due_at = seen.due_at
  FROM unnest(%(jobs)s::bigint[], %(checked)s::timestamptz[], %(due)s::timestamptz[]) AS seen(id, checked_at, due_at)
 WHERE job.id = seen.id AND job.schedule_checked_at = seen.checked_at
"""
# Longest interval between two checks. A check at a computed moment may come too late if the rules of a time zone
# change, or a clock is set.
_AT_MOST: Final = dt.timedelta(hours=1)
# A waiting job, and the times of its last and its next check.
_Waiting = tuple[int, dt.datetime, dt.datetime]


def apply_windows(at: Pass) -> int:
    """Start, hold and continue jobs by their schedules; return the number of moved jobs."""
    with named_rows(at.connection) as cursor:
        scheduled = [row.id for row in cursor.execute(SCHEDULED_JOBS, {"scope": at.scope, "now": at.now})]
    jobs = list(Job.objects.filter(pk__in=scheduled).order_by("pk").prefetch_related("windows"))
    waiting: list[_Waiting] = []
    try:
        # The time zone of a window may be unknown on this machine.
        return one_by_one(jobs, lambda job: _apply(at, job, waiting), name=lambda job: f"job {job.name}")
    finally:
        if waiting:
            numbers, checked, due = map(list, zip(*waiting, strict=True))
            at.connection.execute(_SET_NEXT_CHECK, {"jobs": numbers, "checked": checked, "due": due})


def _apply(at: Pass, job: Job, waiting: list[_Waiting]) -> bool:
    """
    Start, hold or continue a job. If it still has to wait, add its next check to `waiting`. Return True if it moved.
    """
    windows = [window.times for window in job.windows.all()]
    if job.phase == Phase.ACTIVE and job.window == Place.INSIDE:
        return _wait(at, job, windows)
    opening = schedule.opening_at(
        windows, method=StartMethod(job.start_method), checked_at=job.schedule_checked_at, now=at.now
    )
    if opening is None:
        _note_missed_window(at, job, windows)
        waiting.append((job.pk, job.schedule_checked_at, _due_again(windows, at)))
        if job.phase == Phase.ACTIVE:
            set_reason(job.pk, _why_it_waits(windows, at))
        return False
    if job.phase == Phase.ACTIVE:
        return move(at, job.pk, "unwait", facts={"window_ends_at": opening.ends_at, "missed_window_at": None})
    return _start(at, job, opening)


def _due_again(windows: list[schedule.Window], at: Pass) -> dt.datetime:
    """Return the moment of the next check of a schedule whose job waits."""
    coming = schedule.next_opening_of(windows, after=at.now)
    return min(at.now + _AT_MOST, coming[0]) if coming else at.now + _AT_MOST


def _note_missed_window(at: Pass, job: Job, windows: list[schedule.Window]) -> None:
    """Record the last window that opened and closed while the job waited, and that no manager checked in time."""
    missed = schedule.closed_opening_of(windows, after=job.waits_since, now=at.now)
    if missed is None or missed[0] == job.missed_window_at:
        return
    with transaction.atomic():
        hold_term(connection.connection, at.held_term)
        still = Job.objects.filter(
            pk=job.pk, schedule_checked_at=job.schedule_checked_at, phase=job.phase, window=job.window
        )
        if still.update(missed_window_at=missed[0]):
            said = f"did not run in its window of {schedule.opening_in_words(*missed)}, which is over"
            journal.record(job, kind="missed_window", message=said, made_by="manager", now=at.now)


def _start(at: Pass, job: Job, opening: schedule.Opening) -> bool:
    facts = {"minimal": opening.minimal, "window_ends_at": opening.ends_at, "schedule_checked_at": at.now}
    try:
        return begin_run(at, job.pk, "begin window", facts=facts)
    except Invalid as invalid:
        logger.warning("the schedule of job %s cannot start it: %s", job.name, invalid)
        Job.objects.filter(pk=job.pk).update(schedule_checked_at=at.now, reason=str(invalid))
        return False


def _wait(at: Pass, job: Job, windows: list[schedule.Window]) -> bool:
    """
    End the window of a running job: the job continues in another open window, or waits for the next window. Return True
    if the job changed its state.
    """
    long_ago = at.now - max((window.duration or dt.timedelta() for window in windows), default=dt.timedelta())
    still = schedule.opening_at(windows, method=StartMethod.WINDOW_BEGIN, checked_at=long_ago, now=at.now)
    if still is not None:
        Job.objects.filter(pk=job.pk).update(window_ends_at=still.ends_at)
        return True
    facts = {"window_ends_at": None, "schedule_checked_at": at.now}
    return move(at, job.pk, "wait", facts=facts, reason=_why_it_waits(windows, at))


def _why_it_waits(windows: list[schedule.Window], at: Pass) -> str:
    coming = schedule.next_opening_of(windows, after=at.now)
    if coming is None:
        return "outside its window, which will not open again"
    return f"outside its window until {schedule.opening_in_words(*coming)}"
