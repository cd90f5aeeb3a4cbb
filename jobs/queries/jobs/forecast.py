"""The forecast of the end of a job's run, from the queues of its hosts and its progress of the last minutes."""

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jobs.lifecycle.job import Kind
from jobs.models import Job
from jobs.queries.jobs.lines import JobLine
from jobs.queries.progress import SPANS, read_progress
from jobs.verdicts.forecast import Band, Forecast, Queue, Sample, end_in_window, forecast, is_gain

# Number of the newest minutes of progress from which a forecast is computed.
_MINUTES: Final = 20


@dataclass(frozen=True, slots=True)
class WhatIf:
    """
    Changes that a forecast assumes: factors of the number of workers and of the allowed rates, and a daily window
    (UTC).
    """

    workers: float = 1.0
    rate: float = 1.0
    window: tuple[dt.time, dt.time] | None = None


AS_IT_IS: Final = WhatIf()


@dataclass(frozen=True, slots=True)
class RunForecast:
    """
    The likely end of a run, and two moments between which the end lies in 80 % of all crawls.

    `hosts_are_the_limit` is True if more workers would not help. `more_workers_are_a_gain` is True if twice as many
    workers would end the run noticeably earlier. `found` is the likely number of documents that the run will still
    find.
    """

    likely: dt.datetime
    soonest: dt.datetime
    latest: dt.datetime
    hosts_are_the_limit: bool
    more_workers_are_a_gain: bool
    found: int


def read_forecast(
    job: JobLine, queues: Sequence[Queue], *, now: dt.datetime, supposed: WhatIf = AS_IT_IS
) -> RunForecast | None:
    """
    Return the forecast. None if the job does not run, is held or continuous, or has no waiting document, or if the
    progress of some minutes is not known yet.

    `queues` are the queues of its busiest hosts. All other documents count as one queue without a limit.
    """
    # A job that is still starting has no start time yet.
    if job.started_at is None or not job.runs or job.hold is not None or not job.counts.waiting:
        return None
    if Job.objects.filter(pk=job.id, kind=Kind.CONTINUOUS).exists():
        return None
    samples = _samples(job, since=job.started_at, now=now)
    rest = job.counts.waiting - sum(queue.waiting for queue in queues)
    every = [*queues, Queue(rest, None)] if rest > 0 else queues
    found = forecast(every, samples, workers=supposed.workers, rate=supposed.rate)
    more = forecast(every, samples, workers=supposed.workers * 2, rate=supposed.rate)
    if found is None or more is None or math.isinf(found.band.latest):
        return None
    return _at(found, more.band, now=now, window=supposed.window)


def _at(found: Forecast, more: Band, *, now: dt.datetime, window: tuple[dt.time, dt.time] | None) -> RunForecast:
    def end(seconds: float) -> dt.datetime:
        if window is None:
            return now + dt.timedelta(seconds=seconds)
        return end_in_window(now, seconds, opens=window[0], closes=window[1])

    band = found.band
    return RunForecast(
        likely=end(band.likely),
        soonest=end(band.soonest),
        latest=end(band.latest),
        hosts_are_the_limit=found.hosts_are_the_limit,
        more_workers_are_a_gain=is_gain(band, more),
        found=found.found,
    )


def _samples(job: JobLine, *, since: dt.datetime, now: dt.datetime) -> list[Sample]:
    """
    Return the documents of the run in each of the last minutes, and now. The states of a minute are those at its end.
    """
    span = SPANS["1h"]
    samples = []
    for step in read_progress(span, now=now, job_id=job.id)[-_MINUTES:-1]:
        states, at = step.states, step.at + span.step
        ended = states.indexed + states.unchanged + states.failed + states.excluded
        known = ended + states.waiting + states.active
        if known and step.at >= since:
            samples.append(Sample(at.timestamp(), known, ended))
    counts = job.counts
    samples.append(Sample(now.timestamp(), counts.processed + counts.waiting, counts.processed))
    return samples
