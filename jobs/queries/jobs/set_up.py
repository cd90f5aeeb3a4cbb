"""The configuration of a job. The page of the job shows it as it was when the page was opened."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobs.checks.job_options import INTERVALS
from jobs.lifecycle.job import Kind, StartMethod
from jobs.lifecycle.schedule import Window
from jobs.models import Job
from jobs.queries.jobs.pipeline import Tree, read_tree

_SEEDS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class SeedLine:
    """A seed with its first addresses and its policy. `owner` is the manager that stuffs the documents of the seed."""

    urls: Sequence[str]
    urls_in_all: int
    policy: str
    owner: str


@dataclass(frozen=True, slots=True)
class JobTimes:
    """
    The schedule of a job and its intervals. `intervals` has only intervals that are set, by the names of their columns.
    """

    kind: Kind
    intervals: Mapping[str, dt.timedelta]
    start_method: StartMethod
    windows: Sequence[Window]
    window_ends_at: dt.datetime | None


@dataclass(frozen=True, slots=True)
class JobSetUp:
    """
    The settings of a job, which its open page does not read again.

    `has_more_seeds` is true if the job has more seeds than are shown.
    """

    seeds: Sequence[SeedLine]
    has_more_seeds: bool
    repository: str
    connector: str
    specification: Mapping[str, Any]
    max_documents: int | None
    priority: int
    when: JobTimes
    hop_limits: Mapping[str, int]
    # The pipeline; None without stages.
    tree: Tree | None
    access_rules: int
    kept_versions: int


def read_set_up(job_id: int) -> JobSetUp | None:
    """Return the configuration of a job; None if the job does not exist."""
    job = Job.objects.select_related("repository").prefetch_related("windows").filter(pk=job_id).first()
    if job is None:
        return None
    seeds = _read_seeds(job)
    return JobSetUp(
        seeds=seeds[:_SEEDS_SHOWN],
        has_more_seeds=len(seeds) > _SEEDS_SHOWN,
        repository=job.repository.name,
        connector=job.repository.connector,
        specification=job.specification,
        max_documents=job.max_documents,
        priority=job.priority,
        when=JobTimes(
            kind=Kind(job.kind),
            intervals={name: span for name in INTERVALS if (span := getattr(job, name)) is not None},
            start_method=StartMethod(job.start_method),
            windows=[window.times for window in job.windows.all()],
            window_ends_at=job.window_ends_at,
        ),
        hop_limits=job.hop_limits,
        tree=read_tree(job) if job.pipeline else None,
        access_rules=len(job.access_rules),
        kept_versions=job.kept_versions,
    )


def _read_seeds(job: Job) -> list[SeedLine]:
    """Return the seeds up to a limit, and one more if further seeds follow. A seed may have very many addresses."""
    seeds = job.seeds.filter(removed_at=None).order_by("id")
    rows = seeds.values_list("urls__0_5", "urls__len", "policy__name", "group__owner__name")[: _SEEDS_SHOWN + 1]
    return [SeedLine(urls, in_all or 0, policy or "", owner or "") for urls, in_all, policy, owner in rows]
