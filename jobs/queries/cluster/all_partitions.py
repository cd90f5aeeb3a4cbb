"""The clusters of all partitions: each partition has its own main manager, nodes and groups."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from jobs.partitions.last_answers import HeldAnswers
from jobs.partitions.merged import Merged, read_everywhere
from jobs.queries.cluster.page import CheckLine, ClusterPage, Totals, read_cluster_page
from nodes.database.clock import read_clock


def read_clusters(*, now: dt.datetime) -> Merged[ClusterPage]:
    """Read the cluster of each partition; outside of the control partition, only the cluster of this one."""
    return read_everywhere(lambda: read_cluster_page(now=now), _read_elsewhere)


def read_clusters_for_open_page(*, now: dt.datetime) -> Merged[ClusterPage]:
    """Read the clusters. Figures of other partitions may be some seconds old."""
    own, cached = read_cluster_page(now=now), _cached.answers()
    return Merged(own) if cached is None else cached.with_own(own)


def sum_of_totals(parts: Sequence[Totals]) -> Totals:
    """Return the sums over these partitions."""
    return Totals(
        managers=sum(part.managers for part in parts),
        workers=sum(part.workers for part in parts),
        groups=sum(part.groups for part in parts),
        batches=sum(part.batches for part in parts),
        in_flight=sum(part.in_flight for part in parts),
    )


def checks_of_all(parts: Mapping[str, Sequence[CheckLine]]) -> list[CheckLine]:
    """
    Return one line for each invariant, from the lines of the partitions by name.

    The line has the violations of all partitions, and the oldest check. Its example names its partition.
    """
    by_name: dict[str, dict[str, CheckLine]] = {}
    for partition, checks in parts.items():
        for check in checks:
            by_name.setdefault(check.name, {})[partition] = check
    return [_check_of_all(checks) for checks in by_name.values()]


def _check_of_all(checks: Mapping[str, CheckLine]) -> CheckLine:
    some = next(iter(checks.values()))
    moments = [check.checked_at for check in checks.values() if check.checked_at is not None]
    violated = {partition: check for partition, check in checks.items() if check.found}
    if violated:
        found = sum(check.found or 0 for check in violated.values())
        examples = [f"{partition}: {check.example}" for partition, check in violated.items() if check.example]
        return replace(some, checked_at=min(moments), found=found, example=" ".join(examples))
    if len(moments) < len(checks):
        return replace(some, checked_at=None, found=None, example="")
    has_all = all(check.found is not None for check in checks.values())
    return replace(some, checked_at=min(moments), found=0 if has_all else None, example="")


def _read_elsewhere(_name: str) -> ClusterPage:
    return read_cluster_page(now=read_clock())


_cached: Final = HeldAnswers(_read_elsewhere)
