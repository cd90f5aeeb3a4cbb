"""
F10: a night on which clocks are set back and then forward, in a time zone made for it, whose hours are seconds.

A job has a schedule in that zone, and the zone's clock decides. A time that the clock shows twice starts the job twice,
and a skipped time does not start it. Real daemons read the zone from a file, like those of their system.
"""

import itertools
import time

from django.db import transaction
from django.utils import timezone

from jobs.lifecycle.job import StartMethod
from jobs.models import Job, ScheduleWindow
from tests.chaos.cluster import TIMEOUT
from tests.chaos.zones import write_zone

# Seconds until the first start of the job, until the clocks are set back, the length of that step, and until they are
# set forward.
_IN, _AWAKE, _BACK, _AGAIN = 8.0, 12.0, 24.0, 8.0
_HOUR = 3600
_PAGES = 12
_numbers = itertools.count(1)


def change_clocks_of_a_zone(cluster, _rng, report):
    """Start a job by a schedule at half past two, on a night that has this time twice and skips three o'clock."""
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
    report(f"set the clocks of {key} back and forward, by which job {crawl.job_id} starts")
    # Other faults may happen in that night.
    yield 0


def _schedule(job_id, zone):
    """Schedule the job at half past two and at three. Return the moment of the change (wall clock, in seconds)."""
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
