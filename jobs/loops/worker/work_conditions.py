"""
The conditions that each heartbeat of a worker evaluates, in SQL. An idle worker searches only for work that a condition
reports.

The conditions refer to the row `beaten` of the heartbeat's statement, and each reads at most a few entries of one
index.
"""

from types import MappingProxyType
from typing import Final, LiteralString

from jobs.queue.sql.low_water import LOWEST_BATCH
from jobs.state import disk_waits
from nodes.membership.members import Asks

# True if a batch is offered that the worker may take.
BATCHES: Final = "batches"
_BATCHES: Final[LiteralString] = f"""
EXISTS (SELECT FROM jobs_batch
         WHERE state = 'available' AND node_scope = beaten.scope AND id >= {LOWEST_BATCH}
           AND (worker_id = beaten.id OR worker_id IS NULL AND (tag = '' OR tag = ANY(beaten.tags))))
"""
# True if the database has batches as sent to the worker.
SENT: Final = "sent"
_SENT: Final[LiteralString] = f"""
EXISTS (SELECT FROM jobs_batch WHERE state = 'sent' AND worker_id = beaten.id AND id >= {LOWEST_BATCH})
"""
# True if texts wait to become searchable.
TEXTS: Final = "texts"
_TEXTS: Final[LiteralString] = (
    "(SELECT true FROM jobs_searchdocument WHERE vector IS NULL ORDER BY written_at LIMIT 1) IS NOT NULL"
)
# True if outputs have to be cleared, or removed documents restored.
OUTPUTS: Final = "outputs"
_OUTPUTS: Final[LiteralString] = """
EXISTS (SELECT FROM jobs_outputconnection WHERE clear_before IS NOT NULL)
OR EXISTS (SELECT FROM jobs_outputconnection WHERE orphans_after IS NOT NULL)
OR EXISTS (SELECT FROM jobs_restoration WHERE ended_at IS NULL)
"""
# True if outputs have to be notified.
NOTIFICATIONS: Final = "notifications"
_NOTIFICATIONS: Final[LiteralString] = """
EXISTS (SELECT FROM jobs_notification AS notification JOIN jobs_job AS job ON job.id = notification.job_id
         WHERE job.node_scope = beaten.scope AND job.phase IN ('notifying', 'notifying_of_deletion')
           AND notification.worker_id IS NULL AND notification.notified_at IS NULL AND notification.refused = '')
"""
# True if a dead process of this machine left an archive file open.
ARCHIVES: Final = "archives"
_ARCHIVES: Final[LiteralString] = """
EXISTS (SELECT FROM jobs_archivefile AS file
         WHERE file.host = beaten.host AND file.state = 'open' AND file.removed_at IS NULL
           AND NOT EXISTS (SELECT FROM nodes_node AS node
                            WHERE node.id = file.node_id AND node.status IN ('starting', 'running', 'draining')))
"""
# True if complete archive files of this machine wait for a store.
STORES: Final = "stores"
_STORES: Final[LiteralString] = """
EXISTS (SELECT FROM jobs_archivefile WHERE host = beaten.host AND state = 'complete')
"""
# True if complete archive files lack their checksum. Without stores, this is all that remains to be done.
_CHECKSUMS: Final[LiteralString] = """
EXISTS (SELECT FROM jobs_archivefile WHERE host = beaten.host AND state = 'complete' AND sha256 = '')
"""
# True if jobs wait for a disk of this machine.
DISKS: Final = "disks"
_DISKS: Final[LiteralString] = f"""
EXISTS (SELECT FROM jobs_job
         WHERE node_scope = beaten.scope AND phase = 'active' AND pause <> 'no'
           AND starts_with(reason, '{disk_waits.BEGINS}') AND strpos(reason, ' on ' || beaten.host || ': ') > 0)
"""


def of_worker(*, has_stores: bool) -> Asks:
    """Return the conditions of a worker, with or without stores for archive files."""
    return MappingProxyType(
        {
            BATCHES: _BATCHES,
            SENT: _SENT,
            TEXTS: _TEXTS,
            OUTPUTS: _OUTPUTS,
            NOTIFICATIONS: _NOTIFICATIONS,
            ARCHIVES: _ARCHIVES,
            STORES: _STORES if has_stores else _CHECKSUMS,
            DISKS: _DISKS,
        }
    )
