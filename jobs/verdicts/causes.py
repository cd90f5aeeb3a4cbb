"""The causes that a verdict can name."""

import datetime as dt
import enum
from dataclasses import dataclass
from typing import Final

from jobs.verdicts.requests import Requests


class Cause(enum.StrEnum):
    """The reason for which a document, a host or a job waits."""

    # --- The job ---
    DISK = "disk"
    NOT_RUNNING = "not_running"
    STARTING = "starting"
    ENDING = "ending"
    ABORTING = "aborting"
    PAUSED = "paused"
    # A worker paused the job, since an output refused a write.
    OUTPUT = "output"
    # The stores have not confirmed the files of its archive.
    ARCHIVE = "archive"
    # Slots move between partitions.
    SLOTS = "slots"
    WINDOW = "window"
    CONNECTOR = "connector"
    GUARD = "guard"
    # --- The document ---
    GATE = "gate"
    BUDGET = "budget"
    RETRY = "retry"
    # Another job reads the same document now, and no two jobs read it at the same time.
    OTHER_JOB = "other_job"
    IN_PROGRESS = "in_progress"
    # --- The cluster ---
    NO_MANAGER = "no_manager"
    NO_WORKER = "no_worker"
    NO_TAG = "no_tag"
    NO_OWNER = "no_owner"
    GROUP_FAILS = "group_fails"
    # Workers have claimed as many documents as they may, or read more slowly than the limits allow.
    WORKERS = "workers"
    # --- The host ---
    STOPPED = "stopped"
    DENIED = "denied"
    # Denied at this time of the week.
    CLOSED = "closed"
    BACK_OFF = "back_off"
    # The host gets one request at a time. Each answer shows whether it can have its usual pace again.
    TRIAL = "trial"
    RAMPING = "ramping"
    PARENT = "parent"
    GAP = "gap"
    CRAWL_DELAY = "crawl_delay"
    BYTES = "bytes"
    # All connections are busy: the host answers too slowly for the limit of open requests.
    REQUESTS = "requests"
    # All waiting documents belong to jobs that are held.
    JOBS_HELD = "jobs_held"
    # All waiting documents become due at a later moment.
    NOT_DUE = "not_due"
    # A document is due, and the next pass of its manager offers it.
    NEXT = "next"
    NOTHING_WAITS = "nothing_waits"


_OF_JOBS: Final = frozenset(
    {
        *(Cause.DISK, Cause.NOT_RUNNING, Cause.STARTING, Cause.ENDING, Cause.ABORTING, Cause.PAUSED, Cause.OUTPUT),
        *(Cause.ARCHIVE, Cause.SLOTS),
        *(Cause.WINDOW, Cause.CONNECTOR, Cause.GUARD, Cause.GATE, Cause.BUDGET, Cause.RETRY, Cause.OTHER_JOB),
        Cause.NO_MANAGER,
    }
)


def is_of_job(cause: Cause) -> bool:
    """True if the cause holds a job or single documents of it, False if it holds a host."""
    return cause in _OF_JOBS


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    One cause, its start, and its earliest end. Values are None if they are unknown.

    `parent` is the id of the parent if the cause is a limit of a parent. `busy` of `places` requests are open, and an
    answer takes `seconds`. `by` names the person or program that set the cause, and `detail` is a name or reason that
    belongs to it. `failing` is set if most of the latest requests failed, whatever the cause is.
    """

    cause: Cause
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    by: str = ""
    detail: str = ""
    parent: int | None = None
    busy: int | None = None
    places: int | None = None
    seconds: float | None = None
    failing: Requests | None = None
