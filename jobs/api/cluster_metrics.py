"""
Sets the metrics of the cluster that the web server exports. A few statements read their values, none of them from
documents.
"""

import datetime as dt
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from django.db import DatabaseError, connection

from jobs.attention.all_partitions import read_attention_for_open_page
from jobs.lifecycle.job import Guard, Pause, Phase, Window
from jobs.metrics import cluster
from jobs.models import InvariantCheck, Job
from jobs.partitions import this_partition
from jobs.queries.backups import age_of_last_backup, age_of_log
from jobs.queries.documents.search_lag import read_search_lag
from jobs.queries.jobs.counts import add_up, count_present_runs
from nodes.database.clock import read_clock
from nodes.decisions.items import ItemState
from nodes.lifecycle import CLUSTER_SCOPE, LIVE_STATUSES, NodeKind
from nodes.tasks.statistics import count_ended, count_scheduled, count_workers

# Time for which the values are reused, whatever the number of clients (seconds).
_REUSED_FOR: Final = 5.0

_NODES: Final = """
SELECT kind, status, count(*), sum(refused_writes)::bigint,
       max(extract(epoch FROM clock_timestamp() - heartbeat_at) / timeout_seconds)::float
  FROM nodes_node WHERE status = ANY(%s) GROUP BY kind, status
"""
_JOBS: Final = "SELECT phase, count(*) FROM jobs_job GROUP BY phase"
_GROUPS: Final = "SELECT state, count(*) FROM jobs_throttlegroup GROUP BY state"
# Largest number of jobs in a metric with a line for each job, and largest number of characters of a reason in such a
# line.
_JOBS_SHOWN: Final = 1000
_MOST_REASON: Final = 200
_DATABASE_BYTES: Final = "SELECT pg_database_size(current_database())"
_TERM: Final = """
SELECT term.term, NOT term.resigned AND node.status = ANY(%s)
  FROM nodes_mainterm AS term LEFT JOIN nodes_node AS node ON node.id = term.main_id
 WHERE term.scope = %s
"""


class _Reader:
    """Sets the metrics of one process. Concurrent callers share one read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read_at = float("-inf")

    def refresh(self) -> None:
        """
        Set the metrics to the state of the database, unless that was done a few seconds ago. If the database is
        unavailable, clear the metrics, and set the one that reports a missing database.
        """
        with self._lock:
            if time.monotonic() - self._read_at < _REUSED_FOR:
                return
            try:
                _read()
            except DatabaseError:
                # Without the database, old values would look like present ones, so they are cleared.
                for metric in cluster.METRICS:
                    metric.set_all({})
                cluster.DATABASE_UP.set(0)
            else:
                cluster.DATABASE_UP.set(1)
            _show_backup()
            self._read_at = time.monotonic()


def _read() -> None:
    live = sorted(LIVE_STATUSES)
    nodes = _rows(_NODES, [live])
    found = {(kind, status): count for kind, status, count, _, _ in nodes}
    cluster.NODES.set_all({(kind, status): found.get((kind, status), 0) for kind in NodeKind for status in live})
    cluster.REFUSED.set(sum(refused for *_, refused, _ in nodes))
    cluster.SILENCE.set(max((silence for *_, silence in nodes), default=0.0))
    cluster.JOBS.set_all({(phase,): 0 for phase in Phase} | {(phase,): count for phase, count in _rows(_JOBS)})
    cluster.GROUPS.set_all({(state,): 0 for state in ItemState} | {(state,): count for state, count in _rows(_GROUPS)})
    term, has_main = next(iter(_rows(_TERM, [live, CLUSTER_SCOPE])), (0, False))
    cluster.TERM.set(term)
    cluster.HAS_MAIN.set(bool(has_main))
    _read_documents()
    _read_jobs()
    cluster.TASKS.set_all(count_scheduled())
    cluster.TASK_WORKERS.set_all(count_workers())
    cluster.TASKS_ENDED.set_all(count_ended())
    now = read_clock()
    age = age_of_log(now=now)
    cluster.LOG_AGE.set_all({} if age is None else {(): age})
    cluster.ATTENTION.set_all(_count_attention(now))
    ((size,),) = _rows(_DATABASE_BYTES)
    cluster.DATABASE_BYTES.set(size)
    behind_since = read_search_lag()
    cluster.SEARCH_LAG.set((now - behind_since).total_seconds() if behind_since else 0.0)
    cluster.VIOLATIONS.set_all(
        {(check.name,): check.found for check in InvariantCheck.objects.all() if check.found is not None}
    )


def _count_attention(now: dt.datetime) -> Mapping[tuple[str, ...], float]:
    """Return the number of attention lines by kind and partition. Outside of the control partition, there are none."""
    stated = this_partition.placement()
    if stated is not None and not stated.is_control:
        return {}
    own = "" if stated is None else stated.here
    return Counter(
        (line.kind, line.key if line.kind == "partition_silent" else line.partition or own)
        for line in read_attention_for_open_page(now=now)
    )


def _read_documents() -> None:
    running = Job.objects.exclude(phase=Phase.INACTIVE)
    of_jobs = count_present_runs(running.values_list("id", flat=True))
    held_back = set(
        running.exclude(pause=Pause.NO, window=Window.INSIDE, guard__in=(Guard.NO, Guard.ALLOWED)).values_list(
            "id", flat=True
        )
    )
    cluster.WAITING.set(sum(counts.pending for job_id, counts in of_jobs.items() if job_id not in held_back))
    counts = add_up(of_jobs.values())
    states = ("pending", "active", "indexed", "unchanged", "failed", "excluded")
    cluster.DOCUMENTS.set_all({(state,): getattr(counts, state) for state in states})


def _read_jobs() -> None:
    paused = Job.objects.exclude(phase=Phase.INACTIVE).exclude(pause=Pause.NO).order_by("pk")
    cluster.PAUSED.set_all(
        {
            (name, "crawlctl" if reason else "operator", reason[:_MOST_REASON]): 1
            for name, reason in paused.values_list("name", "reason")[:_JOBS_SHOWN]
        }
    )
    ended = Job.objects.filter(ended_at__isnull=False).order_by("-ended_at", "pk")
    cluster.ENDED.set_all(
        {(name,): at.timestamp() for name, at in ended.values_list("name", "ended_at")[:_JOBS_SHOWN] if at}
    )


def _show_backup() -> None:
    """Set the age of the last backup, which needs no database."""
    age = age_of_last_backup()
    if age is not None:
        cluster.BACKUP_AGE.set(age)


def _rows(statement: str, values: Any = None) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return list(cursor.fetchall())


refresh_cluster_metrics: Final = _Reader().refresh
