"""The settings of a worker, in the form in which the parts of the worker use them."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from jobs.extraction.pool import PoolLimits
from jobs.loops.open_files import documents_within_open_files
from jobs.models import Batch
from jobs.settings import extraction, kept, table
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.settings.effective import Effective
from nodes.settings.node_settings import HEARTBEAT_INTERVAL


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """
    The settings of a worker that an operator may change.

    `capacity` limits the documents that are claimed and not yet flushed, and `open_documents` those in progress at the
    same time. `pools` limits the documents of each kind of batch in one take. If `notifies`, the worker notifies
    outputs of the end of runs. If `keeps_strictly`, it takes no bin of another worker, however busy the other worker
    is. `free_disk` is the least free space on each of its disks (MiB). `extraction` limits its child processes.
    """

    capacity: int
    open_documents: int
    pools: Mapping[str, int]
    notifies: bool
    keeps_strictly: bool
    flush_after: dt.timedelta
    drain_timeout: dt.timedelta
    heartbeat: dt.timedelta
    keeps_history: bool
    keeps_evidence: bool = False
    free_disk: int = 0
    extraction: PoolLimits = field(default_factory=PoolLimits)

    @classmethod
    def of(cls, effective: Effective, *, scope: str) -> Self:
        """
        Return the settings of a worker from all settings. The workers of a one-shot crawl do all work, because no other
        workers exist.
        """
        is_shared = scope == CLUSTER_SCOPE
        pools: dict[str, int] = {
            Batch.Kind.PROCESS: effective[table.PROCESSED_AT_ONCE],
            Batch.Kind.EXPIRE: effective[table.EXPIRED_AT_ONCE],
            Batch.Kind.CLEAN: effective[table.CLEANED_AT_ONCE],
            Batch.Kind.DELETE: effective[table.DELETED_AT_ONCE],
        }
        return cls(
            capacity=effective[table.CLAIMED],
            open_documents=documents_within_open_files(effective[table.OPEN_DOCUMENTS]),
            pools=pools if is_shared else {},
            notifies=effective[table.NOTIFIES_OUTPUTS] or not is_shared,
            keeps_strictly=effective[table.KEEPS_HOSTS_STRICTLY],
            flush_after=effective[table.FLUSH_AFTER],
            drain_timeout=effective[table.DRAIN_TIMEOUT],
            heartbeat=effective[HEARTBEAT_INTERVAL],
            keeps_history=effective[table.KEEP_HISTORY] > 0,
            keeps_evidence=effective[kept.KEEP_EVIDENCE] > 0,
            free_disk=effective[table.FREE_DISK],
            extraction=PoolLimits(
                processes=effective[extraction.EXTRACTION_PROCESSES],
                seconds=effective[extraction.EXTRACTION_SECONDS],
                memory=effective[extraction.EXTRACTION_MEMORY],
            ),
        )


class WorkerFailed(Exception):
    """This worker was marked failed, lost its database, or reached no coordination store: its process ends."""
