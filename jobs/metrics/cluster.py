"""
Figures of the whole cluster at the web server: read from the database at each request, as pages are.

Only web servers show them, so that no sum counts them twice: several web servers show the same values.
"""

from typing import Final

from nodes.metrics.figures import Level, Process

_WEB: Final = frozenset({Process.WEB})

DATABASE_UP: Final = Level(
    name="crawlctl_database_up",
    meaning="1 if the database answered this reading; otherwise 0, and nothing else is said of the cluster.",
    shown_by=_WEB,
)
DOCUMENTS: Final = Level(
    name="crawlctl_cluster_documents",
    labels=("state",),
    meaning="Documents of the present runs of jobs that run, by state: what waits, what is claimed, and what the others "
    "came to. From the counters; no document is looked at.",
    shown_by=_WEB,
)
JOBS: Final = Level(
    name="crawlctl_cluster_jobs", labels=("phase",), meaning="Jobs, by phase (docs/lifecycle.md).", shown_by=_WEB
)
NODES: Final = Level(
    name="crawlctl_cluster_nodes",
    labels=("kind", "status"),
    meaning="Nodes that have not ended, by kind and status, one-shots' among them.",
    shown_by=_WEB,
)
SILENCE: Final = Level(
    name="crawlctl_cluster_longest_silence_ratio",
    meaning="The longest time since the last beat of a node that has not ended, in its own timeouts: at 1 it is to be marked failed.",
    shown_by=_WEB,
)
HAS_MAIN: Final = Level(
    name="crawlctl_cluster_has_main",
    meaning="1 if the shared scope has a main at work.",
    shown_by=_WEB,
)
TERM: Final = Level(
    name="crawlctl_cluster_term",
    meaning="The term of the shared scope; each election makes it grow by one.",
    shown_by=_WEB,
)
GROUPS: Final = Level(
    name="crawlctl_cluster_groups",
    labels=("state",),
    meaning="Throttle groups of seeds that run, by state: free ones wait for a manager.",
    shown_by=_WEB,
)
SEARCH_LAG: Final = Level(
    name="crawlctl_cluster_search_lag_seconds",
    meaning="Since the oldest text was written that the search cannot find yet.",
    shown_by=_WEB,
)
ASTRAY: Final = Level(
    name="crawlctl_cluster_invariant_breaches",
    labels=("invariant",),
    meaning="How much was astray when the main last looked whether an invariant holds, up to a hundred.",
    shown_by=_WEB,
)
REFUSED: Final = Level(
    name="crawlctl_cluster_refused_writes",
    meaning="Refused writes that nodes which have not ended had to count on their rows.",
    shown_by=_WEB,
)

WAITING: Final = Level(
    name="crawlctl_cluster_waiting_documents",
    meaning="Documents that wait in jobs that should move: neither paused, nor outside of their schedule, nor waiting for an approval.",
    shown_by=_WEB,
)
PAUSED: Final = Level(
    name="crawlctl_cluster_job_paused",
    labels=("crawl", "by", "reason"),
    meaning="1 for each paused job, with the reason. `by` is `operator`, or `crawlctl` where it paused the job itself. "
    "At most 1,000 jobs.",
    shown_by=_WEB,
)
ENDED: Final = Level(
    name="crawlctl_cluster_job_ended_timestamp_seconds",
    labels=("crawl",),
    meaning="End of the last run of each job that has ended one (Unix time); the 1,000 last ones.",
    shown_by=_WEB,
)
ATTENTION: Final = Level(
    name="crawlctl_cluster_attention_lines",
    labels=("kind",),
    meaning="Lines under “Needs attention”, by kind (`manage.py status` lists them).",
    shown_by=_WEB,
)
DATABASE_BYTES: Final = Level(
    name="crawlctl_cluster_database_bytes", meaning="Size of the database on its disk.", shown_by=_WEB
)
BACKUP_AGE: Final = Level(
    name="crawlctl_cluster_backup_age_seconds",
    meaning="Age of the last backup: of the file that `CRAWLCTL_BACKUP_FILE` names. Infinite if the file does not exist, "
    "absent without the setting.",
    shown_by=_WEB,
)

FIGURES: Final[tuple[Level, ...]] = (
    DATABASE_UP,
    DOCUMENTS,
    JOBS,
    NODES,
    SILENCE,
    HAS_MAIN,
    TERM,
    GROUPS,
    SEARCH_LAG,
    ASTRAY,
    REFUSED,
    WAITING,
    PAUSED,
    ENDED,
    ATTENTION,
    DATABASE_BYTES,
    BACKUP_AGE,
)
