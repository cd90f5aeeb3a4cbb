"""Runs of all jobs, the newest first, with the counts of all partitions."""

import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.db import connection
from django.db.models import Q

from jobs.models import Run
from jobs.partitions.merged import Merged, Silent, read_everywhere
from jobs.queries.jobs.counts import add_up, count_own_documents, count_present_runs
from jobs.queue.counting.counters import RunCounts

# Counts of runs, by the id of the job in the control partition and the number of the run.
_Counts = Mapping[tuple[int, int], RunCounts]

A_PAGE: Final = 50
# The value of the filter `end` for runs that have not ended.
RUNNING: Final = "running"


# The runs of jobs with these ids in the control partition.
_ROWS: Final = """
SELECT run.id, known.number
  FROM unnest(%(jobs)s::bigint[], %(runs)s::int[]) AS wanted(number, run_no)
  JOIN jobs_partitionedjob AS known ON known.number = wanted.number
  JOIN jobs_run AS run ON run.job_id = known.job_id AND run.run_no = wanted.run_no
"""


@dataclass(frozen=True, slots=True)
class RunKey:
    """The last run on a page of a list. The next page continues after it."""

    started_at: dt.datetime
    id: int


@dataclass(frozen=True, slots=True)
class RunFilter:
    """
    The runs to list. Each field is a condition: the job of the run, its end (a `RunEnd`, or RUNNING), a key after which
    the list continues.
    """

    job_id: int | None = None
    end: str = ""
    after: RunKey | None = None


@dataclass(frozen=True, slots=True)
class RunLine:
    """
    A run. While it lasts, its counts are the present counts. The counts of an ended run lack the partitions in
    `silent`.
    """

    id: int
    job_id: int
    job_name: str
    run_no: int
    started_at: dt.datetime
    started_by: str
    ended_at: dt.datetime | None
    run_end: str
    reason: str
    counts: RunCounts
    silent: Sequence[Silent] = ()

    @property
    def all_failed(self) -> bool:
        return 0 < self.counts.processed == self.counts.failed


@dataclass(frozen=True, slots=True)
class RunList:
    """One page of runs. The next page continues after `next_key`; None on the last page."""

    lines: Sequence[RunLine]
    next_key: RunKey | None


def list_runs(wanted: RunFilter) -> RunList:
    """Return a page of the runs that pass the filter; jobs of one-shot commands have runs, too."""
    runs = Run.objects.select_related("job")
    if wanted.job_id is not None:
        runs = runs.filter(job_id=wanted.job_id)
    if wanted.end == RUNNING:
        runs = runs.filter(ended_at=None, run_end="")
    elif wanted.end:
        runs = runs.filter(run_end=wanted.end, ended_at__isnull=False)
    if wanted.after is not None:
        key = wanted.after
        runs = runs.filter(
            Q(started_at__lt=key.started_at) | Q(started_at=key.started_at, id__lt=key.id),
            started_at__lte=key.started_at,
        )
    found = list(runs.order_by("-started_at", "-id")[: A_PAGE + 1])
    shown = found[:A_PAGE]
    last = shown[-1] if len(found) > A_PAGE else None
    return RunList(read_run_lines(shown), RunKey(last.started_at, last.pk) if last else None)


def read_run_lines(runs: Sequence[Run]) -> list[RunLine]:
    """Return runs, with their jobs, as lines with the counts of all partitions."""
    lines = _read_lines(runs, count_present_runs)
    found = count_in_others((line.job_id, line.run_no) for line in lines if line.ended_at is not None)
    return [
        line
        if line.ended_at is None
        else replace(
            line, counts=add_up([line.counts, *found.counts.get((line.job_id, line.run_no), ())]), silent=found.silent
        )
        for line in lines
    ]


def _read_lines(runs: Iterable[Run], count: Callable[[Iterable[int]], Mapping[int, RunCounts]]) -> list[RunLine]:
    runs = list(runs)
    running = [run.job_id for run in runs if run.ended_at is None and run.run_no == run.job.run_no]
    counts = count(running) if running else {}
    return [_line(run, counts.get(run.job_id) if run.ended_at is None else None) for run in runs]


@dataclass(frozen=True, slots=True)
class CountsOfOthers:
    """
    Counts of runs by (job, run_no): for each run, the counts of each other partition. `silent` are the partitions that
    did not answer.
    """

    counts: Mapping[tuple[int, int], Sequence[RunCounts]]
    silent: Sequence[Silent]


def count_in_others(runs: Iterable[tuple[int, int]]) -> CountsOfOthers:
    """
    Return the counts of these runs, which have ended here, in the other partitions.

    A run has a row in each partition. The figures that other partitions send are about the present run only.
    """
    wanted = list(runs)
    if not wanted:
        return CountsOfOthers({}, ())
    found: Merged[_Counts] = read_everywhere(dict, lambda _name: _count_elsewhere(wanted))
    counts: dict[tuple[int, int], list[RunCounts]] = defaultdict(list)
    for part in found.others.values():
        for run, one in part.items():
            counts[run].append(one)
    return CountsOfOthers(counts, found.silent)


def _count_elsewhere(wanted: Sequence[tuple[int, int]]) -> _Counts:
    """Return the counts of runs in the database of this thread, by the ids of jobs in the control partition."""
    with connection.cursor() as cursor:
        cursor.execute(_ROWS, {"jobs": [job for job, _ in wanted], "runs": [run for _, run in wanted]})
        numbers = dict(cursor.fetchall())
    rows = Run.objects.select_related("job").filter(pk__in=numbers)
    return {(numbers[line.id], line.run_no): line.counts for line in _read_lines(rows, count_own_documents)}


def _line(run: Run, present: RunCounts | None) -> RunLine:
    stored = RunCounts(
        indexed=run.indexed,
        unchanged=run.unchanged,
        failed=run.failed,
        excluded=run.excluded,
        deleted=run.deleted,
        bytes=run.bytes,
    )
    return RunLine(
        id=run.pk,
        job_id=run.job_id,
        job_name=run.job.name,
        run_no=run.run_no,
        started_at=run.started_at,
        started_by=run.started_by,
        ended_at=run.ended_at,
        run_end=run.run_end,
        reason=run.reason,
        counts=present or stored,
    )


@dataclass(frozen=True, slots=True)
class RunMark:
    """A run as a mark in its job's row of the run grid. While the run lasts, its counts are the present counts."""

    id: int
    run_no: int
    started_at: dt.datetime
    run_end: str
    is_over: bool
    documents: int
    failed: int


# Number of runs of each job in its row of marks.
MARKS: Final = 30
# The index of (job, number) gives the newest runs of each job.
_MARKS: Final = """
SELECT wanted.id, run.id, run.run_no, run.started_at, run.run_end, run.ended_at IS NOT NULL,
       run.indexed + run.unchanged + run.failed + run.excluded, run.failed
  FROM unnest(%(jobs)s::bigint[]) AS wanted(id)
 CROSS JOIN LATERAL (SELECT * FROM jobs_run WHERE job_id = wanted.id ORDER BY run_no DESC LIMIT %(most)s) AS run
 ORDER BY wanted.id, run.run_no
"""


def mark_runs(job_ids: Sequence[int]) -> dict[int, list[RunMark]]:
    """Return the last runs of each job, the oldest first."""
    found: dict[int, list[RunMark]] = {job_id: [] for job_id in job_ids}
    with connection.cursor() as cursor:
        cursor.execute(_MARKS, {"jobs": list(job_ids), "most": MARKS})
        for job_id, *mark in cursor.fetchall():
            found[job_id].append(RunMark(*mark))
    running = [job_id for job_id, marks in found.items() if marks and not marks[-1].is_over]
    ended = {(job_id, mark.run_no): mark for job_id, marks in found.items() for mark in marks if mark.is_over}
    for (job_id, run_no), parts in count_in_others(ended).counts.items():
        mark, sum_ = ended[job_id, run_no], add_up(parts)
        place = found[job_id].index(mark)
        found[job_id][place] = replace(
            mark, documents=mark.documents + sum_.processed, failed=mark.failed + sum_.failed
        )
    for job_id, counts in (count_present_runs(running) if running else {}).items():
        found[job_id][-1] = replace(found[job_id][-1], documents=counts.processed, failed=counts.failed)
    return found
