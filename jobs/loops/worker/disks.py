"""
Jobs that wait for a disk: a worker paused them because an output or an archive cannot write there. The disk is full or
read-only.

Any worker of the same machine resumes the job when the disk has room and may be written. The reason of the job holds
the folder and the machine, so the wait survives the death of the worker.
"""

import logging
from typing import Any, Final, LiteralString

import psycopg

from jobs.loops.disk import may_write
from jobs.loops.worker.writing import resume_job
from jobs.state import disk_waits

logger = logging.getLogger(__name__)

# Least room for a new attempt (bytes), if the limit of free disk is lower.
_LEAST_ROOM: Final = 16 * 1024 * 1024
_WAITING: Final[LiteralString] = """
SELECT id, reason FROM jobs_job
 WHERE node_scope = %(scope)s AND phase = 'active' AND pause <> 'no' AND starts_with(reason, %(begins)s)
"""


def resume_jobs(connection: psycopg.Connection[Any], *, scope: str, host: str, limit: int) -> None:
    """
    Resume the jobs that wait for a disk of this machine that has more than `limit` MiB of room, and may be written.
    """
    least = max(limit * 1024 * 1024, _LEAST_ROOM)
    for job_id, reason in connection.execute(_WAITING, {"scope": scope, "begins": disk_waits.BEGINS}).fetchall():
        wait = disk_waits.read_wait(reason)
        if wait is not None and wait[1] == host and may_write(wait[0], least=least):
            logger.info("job %d continues: the disk of %s can be written again", job_id, wait[0])
            resume_job(job_id)
