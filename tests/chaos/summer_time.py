"""
F10: a night on which clocks are set back, and then forward, in a time zone that is made for it; its hours are seconds.

A job has a schedule in that zone. What the zone's clock shows is what counts: what it shows twice starts the job
twice, what it skips does not start it. Real daemons read the zone from a file, as they read those of their system.
"""

import itertools
import time

from django.db import transaction
from django.utils import timezone

from jobs.lifecycle.job import StartMethod
from jobs.models import Job, ScheduleWindow
from tests.chaos.cluster import TIMEOUT
from tests.chaos.zones import write_zone

# Seconds: until the job starts for the first time, then until clocks are set back, by so much, and then forward.
_IN, _AWAKE, _BACK, _AGAIN = 8.0, 12.0, 24.0, 8.0
_HOUR = 3600
_PAGES = 12
_numbers = itertools.count(1)


def a_night(cluster, _dice, tell):
    """Have a job start whenever a clock shows half past two, on a night on which it does so twice, and skips three."""
    crawl = cluster.begin_crawl(pages=_PAGES, hosts=1, traps=0, slow="1000000:1", starts=False)
    first = int(time.time() + _IN)
    back, second = first + _AWAKE, first + _BACK
    forward = second + _AGAIN
    key = f"Chaos/Night_{next(_numbers)}"
    usual = int(2.5 * _HOUR) - first % (24 * _HOUR)
    write_zone(
        cluster.zones / key,
        usual=usual,
        changes=[(int(back), usual - int(_BACK)), (int(forward), usual - int(_BACK) + _HOUR)],
    )
    crawl.runs_until = time.monotonic() + _IN + _BACK + _AGAIN + 5 * TIMEOUT
    begun_at = cluster.in_database(lambda: _schedule(crawl.job_id, key))
    crawl.openings = [moment for moment in (first, second) if moment > begun_at]
    tell(f"set the clocks of {key} back and forward, by which job {crawl.job_id} starts")
    # Whatever else happens in that night may happen.
    yield 0


def _schedule(job_id, zone):
    """Let the job start at half past two, and at three; returns since when (seconds of the wall clock)."""
    with transaction.atomic():
        now = timezone.now()
        for position, (hour, minute) in enumerate(((2, 30), (3, 0))):
            ScheduleWindow.objects.update_or_create(
                job_id=job_id, position=position, defaults={"hours": [hour], "minutes": [minute], "time_zone": zone}
            )
        Job.objects.filter(pk=job_id).update(
            start_method=StartMethod.WINDOW_BEGIN, schedule_checked_at=now, schedule_due_at=None
        )
    return now.timestamp()
