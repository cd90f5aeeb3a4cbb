"""Metrics of the crawl, which managers and workers each count about their own work."""

from typing import Final

from nodes.metrics.kinds import NODES, Counter, Gauge, Histogram, Metric, Process

_MANAGERS: Final = frozenset({Process.MANAGER})
_WORKERS: Final = frozenset({Process.WORKER})

# Bounds of histograms of the time of transactions (seconds): some milliseconds; with a wait for a lock or a disk, up to
# seconds.
_OF_STATEMENTS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
# Bounds of histograms of the time of requests (seconds): from a site on the same machine to a site that answers just
# before the timeout.
_OF_SITES: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

# --- Duties of managers --------------------------------------------------------------------------

DUTY_RUNS: Final = Counter(
    name="crawlctl_duty_runs_total",
    labels=("duty",),
    meaning="Executions of a duty.",
    shown_by=_MANAGERS,
)
DUTY_SECONDS: Final = Counter(
    name="crawlctl_duty_seconds_total",
    labels=("duty",),
    meaning="Time spent in a duty.",
    shown_by=_MANAGERS,
)
DUTY_MOVED: Final = Counter(
    name="crawlctl_duty_moved_total",
    labels=("duty",),
    meaning="Things that a duty changed: documents, groups, jobs.",
    shown_by=_MANAGERS,
)
DUTY_FAILURES: Final = Counter(
    name="crawlctl_duty_failures_total",
    labels=("duty",),
    meaning="Failures and interruptions of a duty, which is retried at its next execution.",
    shown_by=_MANAGERS,
)
GROUPS: Final = Gauge(
    name="crawlctl_manager_groups", meaning="Throttle groups that this manager owns.", shown_by=_MANAGERS
)

# --- Stuffing and failover -----------------------------------------------------------------------

STUFFING: Final = Histogram(
    name="crawlctl_stuff_seconds",
    labels=("outcome",),
    bounds=_OF_STATEMENTS,
    meaning="Passes of stuffing a group with ready lanes: documents were `offered`, or `nothing`, because no host had a free place.",
    shown_by=_MANAGERS,
)
OFFERED: Final = Counter(
    name="crawlctl_offered_documents_total",
    meaning="Documents offered to workers in batches.",
    shown_by=_MANAGERS,
)
OFFERED_BATCHES: Final = Counter(
    name="crawlctl_offered_batches_total", meaning="Batches offered to workers.", shown_by=_MANAGERS
)
RELEASED: Final = Counter(
    name="crawlctl_released_documents_total",
    meaning="Documents of failed workers that this manager released as the main manager.",
    shown_by=_MANAGERS,
)

# --- Workers -------------------------------------------------------------------------------------

TAKEN: Final = Counter(
    name="crawlctl_taken_documents_total", meaning="Documents that this worker took.", shown_by=_WORKERS
)
TAKEN_TURNS: Final = Counter(
    name="crawlctl_taken_turns_total",
    meaning="Turns that this worker took: documents of one host with its limits.",
    shown_by=_WORKERS,
)
CLOSED_TURNS: Final = Counter(
    name="crawlctl_closed_turns_total", meaning="Turns that this worker closed.", shown_by=_WORKERS
)
ENDED_BATCHES: Final = Counter(
    name="crawlctl_ended_batches_total",
    meaning="Batches that this worker has finished.",
    shown_by=_WORKERS,
)
DOCUMENTS: Final = Counter(
    name="crawlctl_documents_total",
    labels=("result",),
    from_zero=tuple(
        (result,) for result in ("indexed", "unchanged", "failed", "excluded", "retry", "given_back", "waiting")
    ),
    meaning="Documents whose outcome was written and counted. `retry`, `given_back` and `waiting` are processed again.",
    shown_by=_WORKERS,
)
GIVEN_BACK: Final = Counter(
    name="crawlctl_given_back_documents_total",
    meaning="Documents that this worker returned without an outcome: not started, or interrupted.",
    shown_by=_WORKERS,
)
REMOVED: Final = Counter(
    name="crawlctl_removed_documents_total",
    meaning="Documents that were removed from the queue: expired, no longer linked, or of a deleted job.",
    shown_by=_WORKERS,
)
OUTPUTS: Final = Counter(
    name="crawlctl_output_documents_total",
    labels=("operation",),
    from_zero=(("added",), ("removed",)),
    meaning="Documents added to an output (or replaced there), and removed from one; counted for each output.",
    shown_by=_WORKERS,
)
OUTPUT_ERRORS: Final = Counter(
    name="crawlctl_output_errors_total",
    meaning="Writes that an output refused. Its job is paused with the reason, or the removal is retried.",
    shown_by=_WORKERS,
)
FLUSHES: Final = Histogram(
    name="crawlctl_flush_seconds",
    bounds=_OF_STATEMENTS,
    meaning="Duration of a flush: outcomes with their references and outputs.",
    shown_by=_WORKERS,
)
OFFERED_REFERENCES: Final = Counter(
    name="crawlctl_offered_references_total",
    meaning="References that this worker sent to the database: each identifier of a run once, or on average up to 1.3 times if the worker cannot remember all of them.",
    shown_by=_WORKERS,
)
FETCHES: Final = Histogram(
    name="crawlctl_fetch_seconds",
    bounds=_OF_SITES,
    meaning="Response time of sources, from the request to the last byte read, for counted outcomes.",
    shown_by=_WORKERS,
)
FETCHED_BYTES: Final = Counter(
    name="crawlctl_fetched_bytes_total",
    meaning="Bytes of these responses.",
    shown_by=_WORKERS,
)
STARTS: Final = Counter(
    name="crawlctl_requests_total",
    meaning="Requests to hosts, robots.txt and redirects included, counted when their turn ends.",
    shown_by=_WORKERS,
)
WAITS: Final = Histogram(
    name="crawlctl_pace_wait_seconds",
    bounds=_OF_SITES,
    meaning="Delay before the next request of a host with available documents, because of its limits.",
    shown_by=_WORKERS,
)
BACK_OFFS: Final = Counter(
    name="crawlctl_back_offs_total",
    meaning="Answers 429 and 503, after which a host backs off.",
    shown_by=_WORKERS,
)
DENIED: Final = Counter(
    name="crawlctl_denied_documents_total",
    meaning="Documents that ended without a request, because their host is denied or stopped.",
    shown_by=_WORKERS,
)
HELD_BACK: Final = Counter(
    name="crawlctl_held_back_documents_total",
    meaning="Documents that ended without a request, because their addresses belong to the suspect of a trap.",
    shown_by=_WORKERS,
)
CLAIMED: Final = Gauge(
    name="crawlctl_worker_claimed_documents", meaning="Documents that this worker has claimed.", shown_by=_WORKERS
)
CAPACITY: Final = Gauge(
    name="crawlctl_worker_capacity_documents", meaning="Documents that this worker may claim.", shown_by=_WORKERS
)
IN_FLIGHT: Final = Gauge(
    name="crawlctl_worker_open_documents",
    meaning="Claimed documents that are being read: their requests are open, or wait for a limit.",
    shown_by=_WORKERS,
)
HOSTS: Final = Gauge(
    name="crawlctl_worker_hosts", meaning="Hosts that this worker requests, or requested lately.", shown_by=_WORKERS
)

# --- The database --------------------------------------------------------------------------------

LOST_ANSWERS: Final = Counter(
    name="crawlctl_database_lost_answers_total",
    meaning="Repeated operations, because the database did not answer or a lock took too long.",
    shown_by=NODES,
)

METRICS: Final[tuple[Metric, ...]] = (
    DOCUMENTS,
    TAKEN,
    TAKEN_TURNS,
    CLOSED_TURNS,
    ENDED_BATCHES,
    GIVEN_BACK,
    REMOVED,
    OUTPUTS,
    OUTPUT_ERRORS,
    FLUSHES,
    OFFERED_REFERENCES,
    FETCHES,
    FETCHED_BYTES,
    STARTS,
    WAITS,
    BACK_OFFS,
    DENIED,
    HELD_BACK,
    CLAIMED,
    CAPACITY,
    IN_FLIGHT,
    HOSTS,
    STUFFING,
    OFFERED,
    OFFERED_BATCHES,
    RELEASED,
    GROUPS,
    DUTY_RUNS,
    DUTY_SECONDS,
    DUTY_MOVED,
    DUTY_FAILURES,
    LOST_ANSWERS,
)
