"""
Records of distributed jobs in PostgreSQL: their status on each node, and the jobs that are disabled.

Jobs are shared through the store of coordination. The jobs continue if these records cannot be read or written: the
records only serve the pages and their switches.
"""

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg.rows import namedtuple_row

from nodes.database.connections import Dsn, connect
from nodes.database.texts import storable
from nodes.distributed import DistributedJob, JobContext, Schedule, Switches
from nodes.distributed.engine.status import JobStatus, ManagerStatus

# Default cluster of `manage.py runjobs`.
DEFAULT_CLUSTER: Final = "jobs"

# Keys of the switch for all jobs, and of the switch for jobs without an individual switch.
ALL: Final = "*"
OTHERS: Final = ""

# Silence after which the rows of a node are deleted.
_REMEMBERED: Final = dt.timedelta(days=1)

# Locks: the node's rows, one for each of its jobs.
_NOTE = """
INSERT INTO nodes_distributedjobonnode
       (cluster, job, node, items, in_progress, runs, failures, failures_in_a_row, last_began_at, last_seconds, last_failure,
        next_at, problem, refusal, seen_at)
VALUES (%(cluster)s, %(job)s, %(node)s, %(items)s, %(in_progress)s, %(runs)s, %(failures)s, %(failures_in_a_row)s,
        %(last_began_at)s, %(last_seconds)s, %(last_failure)s, %(next_at)s, %(problem)s, %(refusal)s, clock_timestamp())
ON CONFLICT (cluster, job, node) DO UPDATE
   SET items = EXCLUDED.items, in_progress = EXCLUDED.in_progress, runs = EXCLUDED.runs, failures = EXCLUDED.failures,
       failures_in_a_row = EXCLUDED.failures_in_a_row, last_began_at = EXCLUDED.last_began_at,
       last_seconds = EXCLUDED.last_seconds, last_failure = EXCLUDED.last_failure, next_at = EXCLUDED.next_at,
       problem = EXCLUDED.problem, refusal = EXCLUDED.refusal, seen_at = EXCLUDED.seen_at
"""

# Locks: the node's rows.
_LEAVE = "DELETE FROM nodes_distributedjobonnode WHERE cluster = %(cluster)s AND node = %(node)s"

_SWITCHES = "SELECT job, is_disabled FROM nodes_distributedjobswitch WHERE cluster = %(cluster)s"

_INCARNATION = "SELECT nodes_incarnation()"

_REQUEST = "SELECT asked_at FROM nodes_redistributionrequest WHERE cluster = %(cluster)s"

# Locks: the rows of nodes that ended. Idempotent: any node may do it at any time.
_FORGET = "DELETE FROM nodes_distributedjobonnode WHERE seen_at < clock_timestamp() - %(remembered)s"


class JobRecords:
    """The records of one node. Each call may raise psycopg.Error if the database does not answer."""

    def __init__(self, *, dsn: Dsn, cluster: str, node: str, timeout: dt.timedelta) -> None:
        self._dsn, self._timeout = dsn, timeout
        self._who = {"cluster": cluster, "node": node}
        self._connection: psycopg.Connection[Any] | None = None

    def note(self, status: ManagerStatus) -> None:
        """Write the status of the node's jobs."""
        with self._asking() as connection, connection.transaction(), connection.cursor() as cursor:
            rows = [{**self._who, **_row(job, refusal=status.refusal)} for job in status.jobs.values()]
            cursor.executemany(_NOTE, rows)

    def read_switches(self) -> Switches:
        """Return the stored switches of the cluster."""
        with self._asking() as connection:
            rows = connection.execute(_SWITCHES, self._who).fetchall()
        return switches_of({row.job: row.is_disabled for row in rows})

    def read_redistribution_request(self) -> dt.datetime | None:
        """Return the time of the last request to redistribute all items; None without one."""
        with self._asking() as connection:
            row = connection.execute(_REQUEST, self._who).fetchone()
        return None if row is None else row.asked_at

    def read_incarnation(self) -> str:
        """Return the incarnation of the database (`nodes/membership/incarnation.py`), which is computed at each call."""
        with self._asking() as connection:
            row = connection.execute(_INCARNATION).fetchone()
        assert row is not None
        incarnation: str = row[0]
        return incarnation

    def leave(self) -> None:
        """Delete the node's rows when it ends."""
        with self._asking() as connection:
            connection.execute(_LEAVE, self._who)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    @contextmanager
    def _asking(self) -> Iterator[psycopg.Connection[Any]]:
        if self._connection is None or self._connection.closed:
            self._connection = connect(
                self._dsn, node_id=self._who["node"], purpose="job records", timeout=self._timeout
            )
            self._connection.row_factory = namedtuple_row
        try:
            yield self._connection
        except psycopg.Error:
            self.close()
            raise


class ForgetSilentNodes(DistributedJob):
    """Deletes the rows of nodes that ended without deleting them. One node of the cluster does this."""

    job_id = "crawlctl.forget-silent-nodes"

    def __init__(self, *, dsn: Dsn, timeout: dt.timedelta) -> None:
        self._dsn, self._timeout = dsn, timeout

    def schedule(self) -> Schedule:
        return Schedule.by_delay(dt.timedelta(minutes=10))

    def run(self, context: JobContext) -> None:
        del context
        with connect(self._dsn, node_id=self.job_id, purpose="job", timeout=self._timeout) as connection:
            connection.execute(_FORGET, {"remembered": _REMEMBERED})


def switches_of(switches: Mapping[str, bool]) -> Switches:
    """Return the switches of a cluster from its rows: whether each job is disabled."""
    of_jobs = {job: is_disabled for job, is_disabled in switches.items() if job not in {ALL, OTHERS}}
    return Switches(
        all_disabled=switches.get(ALL, False), disabled_by_default=switches.get(OTHERS, False), disabled=of_jobs
    )


def _row(job: JobStatus, *, refusal: str) -> dict[str, object]:
    runs = job.runs
    return {
        "job": job.job,
        "items": sorted(runs.items),
        "in_progress": runs.in_progress,
        "runs": runs.runs,
        "failures": runs.failures,
        "failures_in_a_row": runs.failures_in_a_row,
        "last_began_at": runs.last_began_at,
        "last_seconds": None if runs.last_took is None else runs.last_took.total_seconds(),
        "last_failure": storable(runs.last_failure)[:2000],
        "next_at": runs.next_at,
        "problem": storable(job.problem)[:2000],
        "refusal": storable(refusal)[:2000],
    }
