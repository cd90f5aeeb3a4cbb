"""Proves that the duty of schedules starts jobs, makes them wait, and resumes them, through a day of windows."""

import datetime as dt
from zoneinfo import ZoneInfoNotFoundError

import pytest

from jobs.attention.schedules import missed_schedules
from jobs.duties.finish import end_runs
from jobs.duties.transient_jobs import pass_on
from jobs.duties.windows import SCHEDULED_JOBS, apply_windows
from jobs.lifecycle.job import Phase
from jobs.lifecycle.schedule import Window
from jobs.models import Job, JobEvent, ScheduleWindow
from jobs.verbs import control, editing, schedules
from nodes.errors import Refused
from nodes.lifecycle import CLUSTER_SCOPE
from tests.support.cluster import NOON
from tests.support.factories import make_job
from tests.support.stepping import Main

HOUR = dt.timedelta(hours=1)
EVENING = Window(hours=(18,), duration=2 * HOUR)
NIGHT = Window(hours=(20,), duration=2 * HOUR, minimal=True)


class Day:
    """A job with a schedule, and a main with a clock that a test sets."""

    def __init__(self, connection, *windows, start_method="window_begin"):
        self.main = Main(connection)
        self.job = make_job(windows=windows, start_method=start_method)

    def at(self, hour, minute=0):
        """Perform the duty at this time of the day. Return the job."""
        self.main.now = NOON.replace(hour=hour, minute=minute)
        self.main.step(apply_windows)
        self.job.refresh_from_db()
        return self.job

    def runs(self):
        """Let the requested run begin."""
        Job.objects.filter(pk=self.job.pk).update(phase=Phase.ACTIVE)

    def ends(self):
        Job.objects.filter(pk=self.job.pk).update(phase=Phase.READY_FOR_NOTIFY)
        self.main.step(pass_on)

    def request(self, verb):
        control.VERBS[verb].perform(self.job.pk, made_by="a test", now=self.main.now)


@pytest.fixture
def day(connection):
    return lambda *windows, **facts: Day(connection, *windows, **facts)


def status(job):
    return job.manifoldcf_status


def test_a_window_starts_a_job_once_when_it_opens(day):
    scheduled = day(EVENING)

    assert status(scheduled.at(17, 59)) == "INACTIVE"
    assert status(scheduled.at(18, 30)) == "READYFORSTARTUP"
    assert scheduled.job.window_ends_at == NOON.replace(hour=20)
    scheduled.runs()
    scheduled.ends()
    assert status(scheduled.at(19)) == "INACTIVE"


def test_inside_of_a_window_a_job_starts_repeatedly(day):
    scheduled = day(EVENING, start_method="window_inside")
    scheduled.at(18)
    scheduled.runs()
    scheduled.ends()

    assert status(scheduled.at(19)) == "READYFORSTARTUP"


def test_a_start_missed_while_the_job_ran_is_skipped(day):
    scheduled = day(EVENING)
    scheduled.main.now = NOON
    scheduled.request("start")
    scheduled.runs()
    assert status(scheduled.at(18, 30)) == "ACTIVE"
    scheduled.ends()

    assert status(scheduled.at(18, 31)) == "INACTIVE"


def test_a_job_that_was_started_by_hand_never_waits(day):
    scheduled = day(EVENING)
    scheduled.at(17)
    scheduled.request("start")
    scheduled.runs()

    assert status(scheduled.at(23)) == "ACTIVE"


def test_a_job_waits_after_its_window_and_continues_in_the_next(day):
    scheduled = day(EVENING, Window(hours=(22,), duration=HOUR))
    scheduled.at(18)
    scheduled.runs()

    job = scheduled.at(20)
    assert (status(job), job.reason) == ("ACTIVEWAITING", "outside its window until Tue 1 Jan 2030 22:00 UTC")
    scheduled.main.step(end_runs)
    assert status(scheduled.at(21)) == "ACTIVEWAIT"
    assert status(scheduled.at(22)) == "RESUMING"
    scheduled.main.step(pass_on)
    job = scheduled.at(22, 1)
    assert (status(job), job.reason, job.window_ends_at) == ("ACTIVE", "", NOON.replace(hour=23))


def test_an_adjacent_window_continues_the_job_without_a_stop(day):
    scheduled = day(EVENING, NIGHT)
    scheduled.at(18)
    scheduled.runs()

    job = scheduled.at(20)

    assert (status(job), job.window_ends_at, job.minimal) == ("ACTIVE", NOON.replace(hour=22), False)
    assert not JobEvent.objects.filter(job=job, kind="wait").exists()


def test_a_schedule_is_checked_when_it_opens_next_and_once_an_hour(day):
    scheduled = day(EVENING)

    assert scheduled.at(12).schedule_due_at == NOON.replace(hour=13)
    assert not is_checked(scheduled.main, NOON.replace(hour=12, minute=59))
    assert is_checked(scheduled.main, NOON.replace(hour=13))
    assert scheduled.at(17, 30).schedule_due_at == NOON.replace(hour=18)


def test_a_schedule_is_checked_immediately_after_a_change_or_a_move(day):
    scheduled = day(EVENING, start_method="window_inside")
    scheduled.at(12)

    editing.change_job(scheduled.job.pk, windows=[Window(hours=(11,), duration=2 * HOUR)], made_by="a test", now=NOON)
    assert status(scheduled.at(12)) == "READYFORSTARTUP"
    scheduled.runs()
    scheduled.ends()
    assert status(scheduled.at(12, 1)) == "READYFORSTARTUP"


def test_a_job_outside_its_window_is_checked_when_the_next_one_opens(day):
    scheduled = day(EVENING, Window(hours=(22,), minutes=(30,), duration=HOUR))
    scheduled.at(18)
    scheduled.runs()
    scheduled.at(20)
    scheduled.main.step(end_runs)

    assert scheduled.at(21, 45).schedule_due_at == NOON.replace(hour=22, minute=30)
    assert status(scheduled.at(22, 30)) == "RESUMING"


def is_checked(main, now):
    return bool(main.connection.execute(SCHEDULED_JOBS, {"scope": CLUSTER_SCOPE, "now": now}).fetchall())


def test_a_window_may_make_its_runs_minimal(day):
    assert status(day(EVENING, NIGHT).at(20)) == "READYFORSTARTUPMINIMAL"


def test_a_paused_job_waits_after_its_window_and_stays_paused(day):
    scheduled = day(EVENING, Window(hours=(22,), duration=HOUR))
    scheduled.at(18)
    scheduled.runs()
    scheduled.request("pause")
    scheduled.main.step(end_runs)

    assert status(scheduled.at(20)) == "PAUSEDWAIT"
    assert status(scheduled.at(22)) == "PAUSED"


def test_a_schedule_whose_job_cannot_run_stops_with_a_reason(day):
    scheduled = day(EVENING)
    scheduled.job.outputs.clear()

    job = scheduled.at(18)

    assert (status(job), "no output" in job.reason, job.schedule_checked_at) == ("INACTIVE", True, scheduled.main.now)


def missed(now):
    """Return the lines of the attention list about schedules at this time."""
    return [(line.subject, line.sentence, line.since) for line in missed_schedules(now)]


OVER = "missed its window. Start the job, or wait for its next window:"


def test_a_window_that_passed_without_a_manager_is_missed(day):
    scheduled = day(EVENING)
    scheduled.at(17)
    assert missed(NOON.replace(hour=17, minute=59)) == []
    (open_,) = missed(NOON.replace(hour=18, minute=30))
    assert "is open, but no manager has started the job" in open_[1]

    (over,) = missed(NOON.replace(hour=23))

    message = f"Job {scheduled.job.name} {OVER} Wed 2 Jan 2030 18:00 UTC."
    assert over == (scheduled.job.name, message, NOON.replace(hour=18))


def test_a_missed_window_is_listed_and_in_the_journal_until_a_run_begins(day):
    scheduled = day(EVENING)
    scheduled.at(17)

    job = scheduled.at(23)
    scheduled.at(23, 30)

    assert job.missed_window_at == NOON.replace(hour=18)
    assert [since for _, _, since in missed(NOON.replace(hour=23, minute=45))] == [NOON.replace(hour=18)]
    (event,) = JobEvent.objects.filter(job=job, kind="missed_window")
    assert event.message == "did not run in its window of Tue 1 Jan 2030 18:00 UTC, which is over"
    scheduled.request("start")
    assert missed(NOON.replace(hour=23, minute=45)) == []
    scheduled.runs()
    scheduled.ends()
    assert (scheduled.at(23, 50).missed_window_at, missed(NOON.replace(hour=23, minute=55))) == (None, [])


def test_a_window_in_which_the_job_ran_is_not_missed(day):
    scheduled = day(EVENING)
    scheduled.at(17)
    scheduled.request("start")
    scheduled.runs()
    Job.objects.update(phase=Phase.INACTIVE, ended_at=NOON.replace(hour=21))

    assert scheduled.at(23).missed_window_at is None
    assert missed(NOON.replace(hour=23, minute=30)) == []


def test_a_schedule_that_is_only_due_for_a_check_is_not_missed(day):
    scheduled = day(EVENING)
    assert scheduled.at(12).schedule_due_at == NOON.replace(hour=13)

    assert missed(NOON.replace(hour=16)) == []


def test_a_job_that_waits_for_its_next_window_can_also_miss_this_window(day):
    scheduled = day(EVENING, Window(hours=(21,), duration=HOUR))
    scheduled.at(18)
    scheduled.runs()
    scheduled.at(20)

    assert scheduled.at(23).missed_window_at == NOON.replace(hour=21)
    (line,) = missed(NOON.replace(hour=23, minute=1))
    assert OVER in line[1]


def test_a_new_schedule_has_missed_no_window(day):
    scheduled = day(EVENING)
    scheduled.at(17)
    scheduled.at(23)

    windows = [Window(hours=(9,), duration=HOUR)]
    editing.change_job(scheduled.job.pk, windows=windows, made_by="a test", now=scheduled.main.now)

    assert missed(NOON.replace(hour=23, minute=30)) == []


def test_a_paused_schedule_starts_no_run_and_counts_no_window_of_the_pause(day):
    evening = day(EVENING)
    schedules.pause(evening.job.pk, made_by="a test", now=evening.main.now)

    assert status(evening.at(18)) == "INACTIVE"
    assert missed_schedules(evening.main.now) == []

    schedules.resume(evening.job.pk, made_by="a test", now=evening.main.now)
    assert status(evening.at(19)) == "INACTIVE"
    evening.main.now += 24 * HOUR
    evening.main.step(apply_windows)
    evening.job.refresh_from_db()
    assert status(evening.job) != "INACTIVE"


def test_a_job_without_a_schedule_cannot_be_paused_as_a_schedule(day):
    by_hand = day(EVENING, start_method="manual")

    with pytest.raises(Refused, match="starts by hand"):
        schedules.pause(by_hand.job.pk, made_by="a test", now=NOON)


def test_a_window_in_an_unknown_time_zone_delays_no_other_job(day):
    bad = day(EVENING)
    ScheduleWindow.objects.filter(job=bad.job).update(time_zone="Mars/Olympus")
    good = make_job(windows=(EVENING,), start_method="window_begin")

    with pytest.raises(ZoneInfoNotFoundError) as raised:
        bad.at(18)

    good.refresh_from_db()
    assert good.phase == Phase.READY_FOR_STARTUP
    assert raised.value.__notes__ == [f"This is an error of job {bad.job.name}."]
