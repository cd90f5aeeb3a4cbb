"""A report in each partition, with its filter in the numbers of that partition."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from jobs.models import PartitionedJob, RepositoryConnection
from jobs.partitions.merged import Merged, PartitionAway, Silent, local_job, read_everywhere
from jobs.queries.reports.document_filter import StatusFilter
from jobs.queries.reports.execution import timeout_seconds, with_timeout
from jobs.queries.reports.history_filter import HistoryFilter

F = TypeVar("F", HistoryFilter, StatusFilter)
T = TypeVar("T")


def refuse_parts(silent: Sequence[Silent]) -> None:
    """
    Check that all partitions have answered, for a report that must be complete.

    Raises:
        PartitionAway: a partition is silent.
    """
    if silent:
        names = ", ".join(one.name for one in silent)
        raise PartitionAway(f"Partition {names} does not answer, and the file would lack its rows. Repeat this later.")


def read_in(partition: str, wanted: F, read: Callable[[F], T], *, empty: T) -> T:
    """
    Return the result of `read` in one partition ("" for this one), or `empty` if no job of the filter is there.

    Raises:
        PartitionAway: the partition does not answer.
    """
    if not partition:
        return read(wanted)
    found = read_named(wanted, lambda asked, _name: read(asked), among=[partition])
    refuse_parts(found.silent)
    answer = found.others[partition]
    return empty if answer is None else answer


def read_named(wanted: F, read: Callable[[F, str], T], *, among: Sequence[str] | None = None) -> Merged[Any]:
    """Return the result of `read` for a filter in each partition; None for a partition without its job."""
    source = None
    if wanted.repository_id is not None:
        source = RepositoryConnection.objects.filter(pk=wanted.repository_id).values_list("name", flat=True).first()
    seconds = timeout_seconds()

    def elsewhere(name: str) -> T | None:
        with with_timeout(seconds):
            local = _localized(wanted, source)
            return None if local is None else read(local, name)

    def own() -> T | None:
        return read(wanted, "") if among is None else None

    # A report may take long. But a partition that does not even open a connection counts as silent after the same time
    # as on other pages.
    return read_everywhere(own, elsewhere, among=among, within=seconds + 1)


def answers(found: Merged[Any]) -> Iterator[Any]:
    yield found.own
    yield from (answer for answer in found.others.values() if answer is not None)


def _localized(wanted: F, source: str | None) -> F | None:
    """Return a filter with the ids of this thread's database; None if it knows no job or source of the filter."""
    repository: int | None = None
    if wanted.repository_id is not None:
        repository = RepositoryConnection.objects.filter(name=source).values_list("pk", flat=True).first()
        if repository is None:
            return None
    if isinstance(wanted, HistoryFilter):
        job = None if wanted.job_id is None else local_job(wanted.job_id)
        if wanted.job_id is not None and job is None:
            return None
        facts: dict[str, Any] = {"job_id": job}
        return replace(wanted, repository_id=repository, **facts)
    # Only jobs that all partitions share: other jobs of that database have no id in the control partition.
    jobs = PartitionedJob.objects.filter(**({"number__in": wanted.job_ids} if wanted.job_ids else {}))
    known = list(jobs.values_list("job_id", flat=True))
    return replace(wanted, repository_id=repository, job_ids=known) if known else None
