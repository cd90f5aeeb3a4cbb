"""
The book of distributed jobs: how they do on each node, and which are disabled, in PostgreSQL.

Jobs are shared by their store, and run on if the book cannot be had: it is for people who look, and for their switches.
"""

import datetime as dt
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg.rows import namedtuple_row

from nodes.connections import Dsn, connect
from nodes.distributed import DistributedJob, JobContext, Schedule, Switches
from nodes.distributed.status import JobStatus, ManagerStatus

# The cluster that `manage.py runjobs` joins unless it is told of another.
DEFAULT_CLUSTER: Final = "jobs"

# The switch of all jobs, and that of those without one of their own.
ALL: Final = "*"
OTHERS: Final = ""

# Nodes that have said nothing for so long are of no interest any more.
_REMEMBERED: Final = dt.timedelta(days=1)

# Locks: the node's rows, one for each of its jobs.
_NOTE = """
INSERT INTO nodes_distributedjobonnode
       (cluster, job, node, items, in_hand, runs, failures, failures_in_a_row, last_began_at, last_seconds, last_failure,
        next_at, problem, refusal, seen_at)
VALUES (%(cluster)s, %(job)s, %(node)s, %(items)s, %(in_hand)s, %(runs)s, %(failures)s, %(failures_in_a_row)s,
        %(last_began_at)s, %(last_seconds)s, %(last_failure)s, %(next_at)s, %(problem)s, %(refusal)s, clock_timestamp())
ON CONFLICT (cluster, job, node) DO UPDATE
   SET items = EXCLUDED.items, in_hand = EXCLUDED.in_hand, runs = EXCLUDED.runs, failures = EXCLUDED.failures,
       failures_in_a_row = EXCLUDED.failures_in_a_row, last_began_at = EXCLUDED.last_began_at,
       last_seconds = EXCLUDED.last_seconds, last_failure = EXCLUDED.last_failure, next_at = EXCLUDED.next_at,
       problem = EXCLUDED.problem, refusal = EXCLUDED.refusal, seen_at = EXCLUDED.seen_at
"""

# Locks: the node's rows.
_LEAVE = "DELETE FROM nodes_distributedjobonnode WHERE cluster = %(cluster)s AND node = %(node)s"

_SWITCHES = "SELECT job, is_disabled FROM nodes_distributedjobswitch WHERE cluster = %(cluster)s"

_WISH = "SELECT asked_at FROM nodes_distributedjobwish WHERE cluster = %(cluster)s"

# Locks: the rows of nodes that are gone. Whoever does it, and however often, does the same.
_FORGET = "DELETE FROM nodes_distributedjobonnode WHERE seen_at < clock_timestamp() - %(remembered)s"


class JobBook:
    """One node's page of it. Each call may raise psycopg.Error, where the database does not answer."""

    def __init__(self, *, dsn: Dsn, cluster: str, node: str, timeout: dt.timedelta) -> None:
        self._dsn, self._timeout = dsn, timeout
        self._who = {"cluster": cluster, "node": node}
        self._connection: psycopg.Connection[Any] | None = None

    def note(self, status: ManagerStatus) -> None:
        """Write how the jobs do."""
        with self._asking() as connection, connection.transaction(), connection.cursor() as cursor:
            rows = [{**self._who, **_row(job, refusal=status.refusal)} for job in status.jobs.values()]
            cursor.executemany(_NOTE, rows)

    def read_switches(self) -> Switches:
        """Return which jobs are disabled."""
        with self._asking() as connection:
            rows = connection.execute(_SWITCHES, self._who).fetchall()
        return switches_of({row.job: row.is_disabled for row in rows})

    def read_wish(self) -> dt.datetime | None:
        """Return when it was last asked for that all items are shared out anew; None: never."""
        with self._asking() as connection:
            row = connection.execute(_WISH, self._who).fetchone()
        return None if row is None else row.asked_at

    def leave(self) -> None:
        """The node ends: nothing of it is of interest any more."""
        with self._asking() as connection:
            connection.execute(_LEAVE, self._who)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    @contextmanager
    def _asking(self) -> Iterator[psycopg.Connection[Any]]:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._dsn, node_id=self._who["node"], purpose="job book", timeout=self._timeout)
            self._connection.row_factory = namedtuple_row
        try:
            yield self._connection
        except psycopg.Error:
            self.close()
            raise


class ForgetSilentNodes(DistributedJob):
    """Keeps the book small: nodes that ended without a word leave rows in it. Done by one node of the cluster."""

    job_id = "crawlctl.forget-silent-nodes"

    def __init__(self, *, dsn: Dsn, timeout: dt.timedelta) -> None:
        self._dsn, self._timeout = dsn, timeout

    def schedule(self) -> Schedule:
        return Schedule.by_delay(dt.timedelta(minutes=10))

    def run(self, context: JobContext) -> None:
        del context
        with connect(self._dsn, node_id=self.job_id, purpose="job", timeout=self._timeout) as connection:
            connection.execute(_FORGET, {"remembered": _REMEMBERED})


def switches_of(said: Mapping[str, bool]) -> Switches:
    """The switches of a cluster, from what the book says by job."""
    of_jobs = {job: is_disabled for job, is_disabled in said.items() if job not in {ALL, OTHERS}}
    return Switches(all_disabled=said.get(ALL, False), disabled_by_default=said.get(OTHERS, False), disabled=of_jobs)


def _row(job: JobStatus, *, refusal: str) -> dict[str, object]:
    runs = job.runs
    return {
        "job": job.job,
        "items": sorted(runs.items),
        "in_hand": runs.in_hand,
        "runs": runs.runs,
        "failures": runs.failures,
        "failures_in_a_row": runs.failures_in_a_row,
        "last_began_at": runs.last_began_at,
        "last_seconds": None if runs.last_took is None else runs.last_took.total_seconds(),
        "last_failure": runs.last_failure.replace("\0", "?")[:2000],
        "next_at": runs.next_at,
        "problem": job.problem.replace("\0", "?")[:2000],
        "refusal": refusal[:2000],
    }
