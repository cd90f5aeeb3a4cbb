"""
Metrics of the whole cluster, which the web server reads from the database at each request for them.

Only web servers show them. Several web servers show the same values, so do not add them up.
"""

from typing import Final

from nodes.metrics.kinds import Gauge, Process

_WEB: Final = frozenset({Process.WEB})

DATABASE_UP: Final = Gauge(
    name="crawlctl_database_up",
    meaning="1 if the database answered. If 0, the other metrics of the cluster are absent, except the age of the last backup.",
    shown_by=_WEB,
)
DOCUMENTS: Final = Gauge(
    name="crawlctl_cluster_documents",
    labels=("state",),
    meaning="Documents of the present runs of running jobs, by state: pending, active (claimed), or their result. Read from counters.",
    shown_by=_WEB,
)
JOBS: Final = Gauge(
    name="crawlctl_cluster_jobs", labels=("phase",), meaning="Jobs, by phase (docs/lifecycle.md).", shown_by=_WEB
)
NODES: Final = Gauge(
    name="crawlctl_cluster_nodes",
    labels=("kind", "status"),
    meaning="Nodes that have not ended, by kind and status, including those of one-shot crawls.",
    shown_by=_WEB,
)
SILENCE: Final = Gauge(
    name="crawlctl_cluster_longest_silence_ratio",
    meaning="Longest silence of a node that has not ended, in units of its timeout. At 1 it is marked failed.",
    shown_by=_WEB,
)
HAS_MAIN: Final = Gauge(
    name="crawlctl_cluster_has_main",
    meaning="1 if the shared scope has an active main manager.",
    shown_by=_WEB,
)
TERM: Final = Gauge(
    name="crawlctl_cluster_term",
    meaning="Term of the shared scope, which grows by one with each election.",
    shown_by=_WEB,
)
GROUPS: Final = Gauge(
    name="crawlctl_cluster_groups",
    labels=("state",),
    meaning="Throttle groups of running seeds, by state. Free ones wait for a manager.",
    shown_by=_WEB,
)
SEARCH_LAG: Final = Gauge(
    name="crawlctl_cluster_search_lag_seconds",
    meaning="Age of the oldest text that the search cannot find yet.",
    shown_by=_WEB,
)
VIOLATIONS: Final = Gauge(
    name="crawlctl_cluster_invariant_breaches",
    labels=("invariant",),
    meaning="Violations of an invariant in the last check of the main manager, at most 100.",
    shown_by=_WEB,
)
REFUSED: Final = Gauge(
    name="crawlctl_cluster_refused_writes",
    meaning="Refused writes of nodes that have not ended.",
    shown_by=_WEB,
)

WAITING: Final = Gauge(
    name="crawlctl_cluster_waiting_documents",
    meaning="Waiting documents of jobs that should make progress: not paused, not outside their window, not waiting for approval.",
    shown_by=_WEB,
)
PAUSED: Final = Gauge(
    name="crawlctl_cluster_job_paused",
    labels=("crawl", "by", "reason"),
    meaning="1 for each paused job, with the reason. `by` is `operator`, or `crawlctl` if it paused the job itself. At most 1,000 jobs.",
    shown_by=_WEB,
)
ENDED: Final = Gauge(
    name="crawlctl_cluster_job_ended_timestamp_seconds",
    labels=("crawl",),
    meaning="End of the last run of each job that has ended one (Unix time), for the 1,000 jobs that ended last.",
    shown_by=_WEB,
)
ATTENTION: Final = Gauge(
    name="crawlctl_cluster_attention_lines",
    labels=("kind", "partition"),
    meaning="Lines under “Needs attention”, by kind (`crawlctl status` lists them). With several partitions, only the control partition shows these lines, for all partitions, so each line counts once. The line about a silent partition has the name of that partition.",
    shown_by=_WEB,
)
DATABASE_BYTES: Final = Gauge(
    name="crawlctl_cluster_database_bytes", meaning="Size of the database on its disk.", shown_by=_WEB
)
BACKUP_AGE: Final = Gauge(
    name="crawlctl_cluster_backup_age_seconds",
    meaning="Age of the last backup: of `last-backup` in the folder of `CRAWLCTL_VAR`, or of the file that `CRAWLCTL_BACKUP_FILE` names. Infinite if the named file does not exist, absent without a backup and the setting.",
    shown_by=_WEB,
)
LOG_AGE: Final = Gauge(
    name="crawlctl_cluster_backup_log_age_seconds",
    meaning="Age of the stored write-ahead log: that of `CRAWLCTL_BACKUP_STORE`, or that of the server's own archiver. Infinite if nothing is stored yet, absent without either.",
    shown_by=_WEB,
)
TASKS: Final = Gauge(
    name="crawlctl_cluster_tasks",
    labels=("group", "state"),
    meaning="Background tasks: queued (due), running, postponed (not due yet), zombie (due for more than a day).",
    shown_by=_WEB,
)
TASK_WORKERS: Final = Gauge(
    name="crawlctl_cluster_task_workers",
    labels=("work_on",),
    meaning="Task workers of the roster, by the group of their tasks.",
    shown_by=_WEB,
)
TASKS_ENDED: Final = Gauge(
    name="crawlctl_cluster_tasks_ended",
    labels=("group", "why"),
    meaning="Background tasks that ended in the last minute, by the reason of their end.",
    shown_by=_WEB,
)

METRICS: Final[tuple[Gauge, ...]] = (
    DATABASE_UP,
    DOCUMENTS,
    JOBS,
    NODES,
    SILENCE,
    HAS_MAIN,
    TERM,
    GROUPS,
    SEARCH_LAG,
    VIOLATIONS,
    REFUSED,
    WAITING,
    PAUSED,
    ENDED,
    ATTENTION,
    DATABASE_BYTES,
    BACKUP_AGE,
    LOG_AGE,
    TASKS,
    TASK_WORKERS,
    TASKS_ENDED,
)
