"""The functions that find lines of the attention list, and the functions that combine these lines."""

import datetime as dt
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from django.apps import apps
from django.utils.module_loading import import_string

from jobs.attention.archives import damaged_archive, failing_stores, jobs_that_wait_for_stores
from jobs.attention.backups import old_backup
from jobs.attention.disks import disks_without_room
from jobs.attention.freshness import goals_that_cannot_be_met
from jobs.attention.groups import failing_groups
from jobs.attention.guard import removals_that_wait
from jobs.attention.hosts import denied_documents, stopped_hosts
from jobs.attention.jobs import failing_hosts, failing_jobs, held_jobs, late_outputs
from jobs.attention.lines import AttentionLine, Severity
from jobs.attention.nodes import lost_nodes, missing_managers_and_workers, silent_nodes
from jobs.attention.outputs import outputs_out_of_sync, outputs_that_lost_lines
from jobs.attention.partitions import partitions_behind, silent_partitions
from jobs.attention.restores import restored_database
from jobs.attention.schedules import missed_schedules
from jobs.attention.stored_settings import ignored_settings
from jobs.attention.traps import traps_that_wait

# Each function takes the present moment and returns lines: at most `lines.SHOWN`, and one line with the number of
# further lines. An open overview calls all functions once a second, so they must not read documents, only active rows
# or an index.
SOURCES: Final[Sequence[Callable[[dt.datetime], Sequence[AttentionLine]]]] = (
    silent_partitions,
    partitions_behind,
    missing_managers_and_workers,
    silent_nodes,
    lost_nodes,
    disks_without_room,
    failing_groups,
    failing_jobs,
    failing_hosts,
    held_jobs,
    late_outputs,
    outputs_that_lost_lines,
    outputs_out_of_sync,
    missed_schedules,
    stopped_hosts,
    denied_documents,
    removals_that_wait,
    traps_that_wait,
    goals_that_cannot_be_met,
    jobs_that_wait_for_stores,
    failing_stores,
    damaged_archive,
    old_backup,
    restored_database,
    ignored_settings,
)

# Sources that are not used for another partition. They read files of this machine, or the control partition already
# reads them for all partitions.
_OF_THIS_ONE: Final = frozenset({silent_partitions, old_backup, removals_that_wait})

_RANK: Final = {severity: rank for rank, severity in enumerate(Severity)}


def read_attention(*, now: dt.datetime) -> list[AttentionLine]:
    """
    Return all lines of this partition: critical lines first, then in the order of the sources.

    Sources of applications of higher layers come after SOURCES.
    """
    return in_order(line for source in (*SOURCES, *_of_applications()) for line in source(now))


def read_of_database(*, now: dt.datetime) -> list[AttentionLine]:
    """Return the lines of the partition whose database this thread uses."""
    sources = [source for source in (*SOURCES, *_of_applications()) if source not in _OF_THIS_ONE]
    return in_order(line for source in sources for line in source(now))


def in_order(lines: Iterable[AttentionLine]) -> list[AttentionLine]:
    """Return the lines with critical ones first. Otherwise, the order stays."""
    return sorted(lines, key=lambda line: _RANK[line.severity])


@functools.cache
def _of_applications() -> Sequence[Callable[[dt.datetime], Sequence[AttentionLine]]]:
    """Return the sources that `attention` of an application's `AppConfig` names, as `package.module:FUNCTION`."""
    named = [str(app.attention) for app in apps.get_app_configs() if hasattr(app, "attention")]
    return [import_string(name.replace(":", ".")) for name in named]
