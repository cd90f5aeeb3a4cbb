"""Figures of the crawl, which managers and workers each count about their own work."""

from typing import Final

from nodes.metrics.figures import NODES, Count, Figure, Level, Process, Spread

_MANAGERS: Final = frozenset({Process.MANAGER})
_WORKERS: Final = frozenset({Process.WORKER})

# Seconds: a flush takes some milliseconds, a statement that waits for a lock or for a disk up to seconds.
_OF_STATEMENTS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
# Seconds: from a site on the same machine to one that answers at the last moment.
_OF_SITES: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

# --- Duties of managers --------------------------------------------------------------------------

DUTY_RUNS: Final = Count(
    name="crawlctl_duty_runs_total",
    labels=("duty",),
    meaning="How often a duty was performed.",
    shown_by=_MANAGERS,
)
DUTY_SECONDS: Final = Count(
    name="crawlctl_duty_seconds_total",
    labels=("duty",),
    meaning="The time that went into a duty.",
    shown_by=_MANAGERS,
)
DUTY_MOVED: Final = Count(
    name="crawlctl_duty_moved_total",
    labels=("duty",),
    meaning="What a duty moved: documents, groups, jobs, whatever it is about.",
    shown_by=_MANAGERS,
)
DUTY_FAILURES: Final = Count(
    name="crawlctl_duty_failures_total",
    labels=("duty",),
    meaning="Times that a duty failed or was broken off; it is tried again at its next turn.",
    shown_by=_MANAGERS,
)
GROUPS: Final = Level(
    name="crawlctl_manager_groups", meaning="Throttle groups that this manager owns.", shown_by=_MANAGERS
)

# --- Stuffing and failover -----------------------------------------------------------------------

STUFFING: Final = Spread(
    name="crawlctl_stuff_seconds",
    labels=("outcome",),
    bounds=_OF_STATEMENTS,
    meaning="Passes of stuffing a group that has ready lanes: `offered` something, or `nothing`, as hosts had no place free.",
    shown_by=_MANAGERS,
)
OFFERED: Final = Count(
    name="crawlctl_offered_documents_total",
    meaning="Documents that were put into batches for workers.",
    shown_by=_MANAGERS,
)
OFFERED_BATCHES: Final = Count(
    name="crawlctl_offered_batches_total", meaning="Batches that were made for workers.", shown_by=_MANAGERS
)
RELEASED: Final = Count(
    name="crawlctl_released_documents_total",
    meaning="Documents that this manager, as main, gave back for workers that were lost.",
    shown_by=_MANAGERS,
)

# --- Workers -------------------------------------------------------------------------------------

TAKEN: Final = Count(
    name="crawlctl_taken_documents_total", meaning="Documents that this worker took.", shown_by=_WORKERS
)
TAKEN_TURNS: Final = Count(
    name="crawlctl_taken_turns_total",
    meaning="Turns that this worker took: documents of one host, handed out with a pace.",
    shown_by=_WORKERS,
)
CLOSED_TURNS: Final = Count(
    name="crawlctl_closed_turns_total", meaning="Turns that this worker closed.", shown_by=_WORKERS
)
ENDED_BATCHES: Final = Count(
    name="crawlctl_ended_batches_total",
    meaning="Batches of which this worker has nothing left.",
    shown_by=_WORKERS,
)
DOCUMENTS: Final = Count(
    name="crawlctl_documents_total",
    labels=("result",),
    from_zero=tuple(
        (result,) for result in ("indexed", "unchanged", "failed", "excluded", "retry", "given_back", "waiting")
    ),
    meaning="Documents whose outcome was written and counted; `retry`, `given_back` and `waiting` come again.",
    shown_by=_WORKERS,
)
GIVEN_BACK: Final = Count(
    name="crawlctl_given_back_documents_total",
    meaning="Documents that this worker gave back without an outcome: not begun, or broken off.",
    shown_by=_WORKERS,
)
REMOVED: Final = Count(
    name="crawlctl_removed_documents_total",
    meaning="Documents that were dropped from the queue: expired, no longer linked, or of a deleted job.",
    shown_by=_WORKERS,
)
OUTPUTS: Final = Count(
    name="crawlctl_output_documents_total",
    labels=("operation",),
    from_zero=(("added",), ("removed",)),
    meaning="Documents that were added to an output (or replaced there), and removed from one; once for each output.",
    shown_by=_WORKERS,
)
OUTPUT_ERRORS: Final = Count(
    name="crawlctl_output_errors_total",
    meaning="Writes that an output refused: its job is paused with the reason, or the removal is tried again.",
    shown_by=_WORKERS,
)
FLUSHES: Final = Spread(
    name="crawlctl_flush_seconds",
    bounds=_OF_STATEMENTS,
    meaning="How long it took to write outcomes that had come together, with their references and outputs.",
    shown_by=_WORKERS,
)
OFFERED_REFERENCES: Final = Count(
    name="crawlctl_offered_references_total",
    meaning="References that this worker sent to the database: of a run each identifier once, or at most 1.3 times where it had forgotten some.",
    shown_by=_WORKERS,
)
FETCHES: Final = Spread(
    name="crawlctl_fetch_seconds",
    bounds=_OF_SITES,
    meaning="How long sources took to answer, from the request to the last byte that was read; of outcomes that counted.",
    shown_by=_WORKERS,
)
FETCHED_BYTES: Final = Count(
    name="crawlctl_fetched_bytes_total",
    meaning="Bytes of those answers.",
    shown_by=_WORKERS,
)
STARTS: Final = Count(
    name="crawlctl_requests_total",
    meaning="Requests that were sent to hosts, robots.txt and redirects among them; counted when their turn closes.",
    shown_by=_WORKERS,
)
WAITS: Final = Spread(
    name="crawlctl_pace_wait_seconds",
    bounds=_OF_SITES,
    meaning="How long hosts whose documents were at hand had to be left alone before the next request, by their pace.",
    shown_by=_WORKERS,
)
BACK_OFFS: Final = Count(
    name="crawlctl_back_offs_total",
    meaning="Times that a source said that it is asked too much of (429, 503), so that its host is left alone.",
    shown_by=_WORKERS,
)
DENIED: Final = Count(
    name="crawlctl_denied_documents_total",
    meaning="Documents that ended without a request, since their host is denied or stopped.",
    shown_by=_WORKERS,
)
CLAIMED: Final = Level(
    name="crawlctl_worker_claimed_documents", meaning="Documents that this worker has at the moment.", shown_by=_WORKERS
)
CAPACITY: Final = Level(
    name="crawlctl_worker_capacity_documents", meaning="Documents that it may have.", shown_by=_WORKERS
)
IN_FLIGHT: Final = Level(
    name="crawlctl_worker_open_documents",
    meaning="Documents of these that are being read: their requests are open, or wait for their pace.",
    shown_by=_WORKERS,
)
HOSTS: Final = Level(
    name="crawlctl_worker_hosts", meaning="Hosts that this worker serves, or served lately.", shown_by=_WORKERS
)

# --- The database --------------------------------------------------------------------------------

LOST_ANSWERS: Final = Count(
    name="crawlctl_database_lost_answers_total",
    meaning="Times that the work had to be done again, since the database did not answer or a lock took too long.",
    shown_by=NODES,
)

FIGURES: Final[tuple[Figure, ...]] = (
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
