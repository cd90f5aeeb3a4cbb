"""
Notifications of outputs: a run has ended, or a job is being deleted.

The main manager inserts a notification for each output that requests it. A worker claims it, notifies the output
outside any transaction, and writes the result. If the worker dies, another worker claims the notification. So an output
is notified at least once, and in rare cases twice.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from psycopg.rows import class_row

from jobs.lifecycle.activity import ActivityName
from nodes.membership.fences import hold_node

_FORGET: Final[LiteralString] = "DELETE FROM jobs_notification WHERE job_id = %(job)s"
_PLAN: Final[LiteralString] = """
INSERT INTO jobs_notification (job_id, output_id, refused)
SELECT %(job)s, id, '' FROM unnest(%(outputs)s::bigint[]) AS wanted(id) ORDER BY id
ON CONFLICT (job_id, output_id) DO UPDATE SET worker_id = NULL, refused = '' WHERE jobs_notification.notified_at IS NULL
"""
_READ: Final[LiteralString] = """
SELECT count(*) FILTER (WHERE notified_at IS NULL AND refused = '') AS waiting,
       coalesce(string_agg(output.name || ': ' || refused, ' ' ORDER BY output.name)
                FILTER (WHERE notified_at IS NULL AND refused <> ''), '') AS refused
  FROM jobs_notification AS notification JOIN jobs_outputconnection AS output ON output.id = notification.output_id
 WHERE job_id = %(job)s
"""
_RELEASE: Final[LiteralString] = """
UPDATE jobs_notification AS notification SET worker_id = NULL
  FROM nodes_node AS node
 WHERE notification.job_id = %(job)s AND notification.notified_at IS NULL
   AND node.id = notification.worker_id AND node.status NOT IN ('running', 'draining')
"""
# A cheap test before the claim, because there is seldom a notification.
_IS_THERE: Final[LiteralString] = """
SELECT EXISTS (SELECT FROM jobs_notification AS notification JOIN jobs_job AS job ON job.id = notification.job_id
                WHERE job.node_scope = %(scope)s AND job.phase IN ('notifying', 'notifying_of_deletion')
                  AND notification.worker_id IS NULL AND notification.notified_at IS NULL AND notification.refused = '')
"""
# Locks: Notification, skipping locked rows.
_CLAIM: Final[LiteralString] = """
WITH wanted AS (
    SELECT notification.id
      FROM jobs_notification AS notification JOIN jobs_job AS job ON job.id = notification.job_id
     WHERE job.node_scope = %(scope)s AND job.phase IN ('notifying', 'notifying_of_deletion')
       AND notification.worker_id IS NULL AND notification.notified_at IS NULL AND notification.refused = ''
     ORDER BY notification.id LIMIT 1
       FOR NO KEY UPDATE OF notification SKIP LOCKED
)
UPDATE jobs_notification AS notification SET worker_id = %(worker)s
  FROM wanted, jobs_outputconnection AS output
 WHERE notification.id = wanted.id AND output.id = notification.output_id
RETURNING notification.id AS notification_id, output.id, output.connector, output.configuration
"""
_SETTLE: Final[LiteralString] = """
WITH settled AS (
    UPDATE jobs_notification
       SET notified_at = CASE WHEN %(refused)s = '' THEN clock_timestamp() END, refused = %(refused)s, worker_id = NULL
     WHERE id = %(notification)s AND worker_id = %(worker)s AND notified_at IS NULL
    RETURNING job_id, output_id
), past AS (
    INSERT INTO jobs_activity (started_at, seconds, job_id, repository_id, output_id, activity, entity, result_code,
                               result_description, node)
    SELECT clock_timestamp() - %(seconds)s * interval '1 second', %(seconds)s, job.id, job.repository_id, settled.output_id,
           %(activity)s, job.id || '(' || job.name || ')',
           CASE WHEN %(refused)s = '' THEN 'OK' ELSE 'REFUSED' END, %(refused)s,
           coalesce((SELECT name FROM nodes_node WHERE id = %(worker)s), '')
      FROM settled JOIN jobs_job AS job ON job.id = settled.job_id
     WHERE %(keeps_history)s
)
SELECT FROM settled
"""


@dataclass(frozen=True, slots=True)
class NotificationState:
    """The state of a job's notifications: the number of open ones, and the messages of outputs that refused."""

    waiting: int
    refused: str


def plan(connection: psycopg.Connection[Any], *, job_id: int, outputs: Sequence[int], again: bool) -> None:
    """Plan notifications of these outputs; `again` also includes outputs that were notified before."""
    with connection.transaction():
        if again:
            connection.execute(_FORGET, {"job": job_id})
        connection.execute(_PLAN, {"job": job_id, "outputs": list(outputs)})


def look(connection: psycopg.Connection[Any], *, job_id: int) -> NotificationState:
    """Release the claims of dead workers, and return the state of a job's notifications."""
    connection.execute(_RELEASE, {"job": job_id})
    row = connection.execute(_READ, {"job": job_id}).fetchone()
    assert row is not None
    return NotificationState(*row)


@dataclass(frozen=True, slots=True)
class NotificationClaimed:
    """A notification that a worker has claimed, and the stored output that gets it."""

    notification_id: int
    id: int
    connector: str
    configuration: object
    # `OutputStored` requires the field. It has no effect here, because a notification opens no file.
    is_confined: bool = True


def claim(connection: psycopg.Connection[Any], *, worker: uuid.UUID, scope: str) -> NotificationClaimed | None:
    """
    Claim and return one notification; None if no notification waits.

    Raises:
        FenceRefused: the worker was marked failed.
    """
    row = connection.execute(_IS_THERE, {"scope": scope}).fetchone()
    if row is None or not row[0]:
        return None
    with connection.transaction(), connection.cursor(row_factory=class_row(NotificationClaimed)) as cursor:
        hold_node(connection, worker)
        return cursor.execute(_CLAIM, {"worker": worker, "scope": scope}).fetchone()


def settle(
    connection: psycopg.Connection[Any],
    *,
    worker: uuid.UUID,
    notification_id: int,
    refused: str,
    seconds: float,
    keeps_history: bool = True,
) -> bool:
    """
    Write the result of a notification that took `seconds`: sent, or `refused` with this message.

    Return True if this worker still had the claim.
    """
    with connection.transaction():
        hold_node(connection, worker)
        facts = {
            "worker": worker,
            "notification": notification_id,
            "refused": refused,
            "seconds": seconds,
            "keeps_history": keeps_history,
            "activity": ActivityName.NOTIFICATION,
        }
        return connection.execute(_SETTLE, facts).rowcount == 1
