"""The gates in their order, the reasons that each can give, and the gate of each cause of a verdict. No I/O."""

import datetime as dt
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from jobs.verdicts.causes import Cause, Verdict


class Gate(enum.StrEnum):
    """The gates between an address and an output, in the order in which a document passes them."""

    FORM = "form"
    KNOWN = "known"
    DENY_LIST = "deny_list"
    SCOPE = "scope"
    DEPTH = "depth"
    TRAP = "trap"
    ROBOTS = "robots"
    JOB = "job"
    WINDOW = "window"
    LOGIN = "login"
    POLICY = "policy"
    HOST = "host"
    LINE = "line"
    CLAIM = "claim"
    RESULT = "result"
    NEXT_LOOK = "next_look"
    CANONICAL = "canonical"
    OUTPUT = "output"


class Status(enum.StrEnum):
    """The status of a gate. Gates after a blocked one are not reached."""

    PASSED = "passed"
    BLOCKED = "blocked"
    NOT_REACHED = "not_reached"


class Reason(enum.StrEnum):
    """The reasons of gates, in addition to the causes of verdicts."""

    # --- Normal form ---
    NORMAL = "normal"
    # --- Known ---
    SEED = "seed"
    FOUND = "found"
    # The page on which the address was found is known, but the way to this page is not.
    FOUND_LATER = "found_later"
    FOUND_BEFORE = "found_before"
    UNKNOWN = "unknown"
    # --- Deny list and stopped hosts ---
    NOT_DENIED = "not_denied"
    # --- Scope ---
    IN_SCOPE = "in_scope"
    OUT_OF_SCOPE = "out_of_scope"
    # The connector judges a document only when it reads it, or the job has too many seeds for a judgement here.
    SCOPE_AT_READING = "scope_at_reading"
    RULES_INVALID = "rules_invalid"
    # --- Depth ---
    NO_DEPTH = "no_depth"
    WITHIN_DEPTH = "within_depth"
    LAST_DEPTH = "last_depth"
    DEPTH_OF_REFERRER = "depth_of_referrer"
    TOO_FAR = "too_far"
    # --- Trap guard ---
    NO_TRAP = "no_trap"
    OVER_LIMIT = "over_limit"
    TRAP_HELD = "trap_held"
    # --- robots.txt ---
    NO_ROBOTS = "no_robots"
    ROBOTS_NOT_READ = "robots_not_read"
    ROBOTS_ALLOWS = "robots_allows"
    ROBOTS_FORBIDS = "robots_forbids"
    ROBOTS_UNREACHABLE = "robots_unreachable"
    # --- Job and window ---
    RUNS = "runs"
    IN_WINDOW = "in_window"
    # --- Login ---
    NO_LOGIN = "no_login"
    # --- Policy and host ---
    LIMITED = "limited"
    # The job does not run, so its policies apply to no host now.
    LIMITED_IN_RUN = "limited_in_run"
    HOST_READY = "host_ready"
    HOST_NEW = "host_new"
    # --- Line and claim ---
    IN_LINE = "in_line"
    # The document has passed the gate in this run, or at its last attempt.
    PASSED_BEFORE = "passed_before"
    OFFERED = "offered"
    TAKEN = "taken"
    REMOVED_NOW = "removed_now"
    NOT_CLAIMED = "not_claimed"
    # --- Result and next look ---
    NO_RESULT = "no_result"
    GOOD_RESULT = "good_result"
    # The document failed or was excluded. The sentence of the gate also explains the result code.
    BAD_RESULT = "bad_result"
    DUE = "due"
    READ_IN_RUN = "read_in_run"
    READ_LATER = "read_later"
    EXPIRES = "expires"
    NOT_REACHED_IN_RUN = "not_reached_in_run"
    # --- Canonical address ---
    OWN_ADDRESS = "own_address"
    REDIRECTS = "redirects"
    # --- Outputs ---
    HELD = "held"
    NOT_HELD = "not_held"
    KEEPS_NOTHING = "keeps_nothing"
    NO_OUTPUT = "no_output"


@dataclass(frozen=True, slots=True)
class Judgement:
    """
    The status of one gate with its reason: a `Reason`, or the cause of `verdict`.

    `facts` are the values that appear in its sentence. `subject` distinguishes the gates of several outputs.
    """

    gate: Gate
    status: Status
    reason: Reason | Cause
    facts: Mapping[str, str] = field(default_factory=dict)
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    verdict: Verdict | None = None
    subject: str = ""


def passed(gate: Gate, reason: Reason, **facts: str) -> Judgement:
    return Judgement(gate, Status.PASSED, reason, facts)


def blocked(gate: Gate, reason: Reason, **facts: str) -> Judgement:
    return Judgement(gate, Status.BLOCKED, reason, facts)


def closed_by(verdict: Verdict) -> Judgement:
    """Return the gate that the cause of a verdict closes."""
    gate = GATE_OF[verdict.cause]
    return Judgement(gate, Status.BLOCKED, verdict.cause, since=verdict.since, until=verdict.until, verdict=verdict)


# Causes of documents that are about to be read, or are read now.
MOVING: Final = frozenset({Cause.IN_PROGRESS, Cause.NEXT})
# The gate that each cause of a verdict closes. A document that is about to be read waits at the gate of claims.
GATE_OF: Final[Mapping[Cause, Gate]] = {
    **dict.fromkeys((Cause.STOPPED, Cause.DENIED, Cause.CLOSED), Gate.DENY_LIST),
    **dict.fromkeys(
        (
            *(Cause.DISK, Cause.NOT_RUNNING, Cause.STARTING, Cause.ENDING, Cause.ABORTING, Cause.PAUSED, Cause.OUTPUT),
            *(
                Cause.ARCHIVE,
                Cause.SLOTS,
                Cause.CONNECTOR,
                Cause.GUARD,
                Cause.BUDGET,
                Cause.NO_MANAGER,
                Cause.JOBS_HELD,
            ),
        ),
        Gate.JOB,
    ),
    Cause.WINDOW: Gate.WINDOW,
    Cause.GATE: Gate.LOGIN,
    **dict.fromkeys(
        (Cause.PARENT, Cause.GAP, Cause.CRAWL_DELAY, Cause.BYTES, Cause.REQUESTS),
        Gate.POLICY,
    ),
    **dict.fromkeys((Cause.BACK_OFF, Cause.TRIAL, Cause.RAMPING), Gate.HOST),
    **dict.fromkeys((Cause.NOT_DUE, Cause.NOTHING_WAITS), Gate.LINE),
    **dict.fromkeys(
        (
            *(Cause.NO_WORKER, Cause.NO_TAG, Cause.NO_OWNER, Cause.GROUP_FAILS, Cause.WORKERS, Cause.OTHER_JOB),
            *(Cause.IN_PROGRESS, Cause.NEXT),
        ),
        Gate.CLAIM,
    ),
    Cause.RETRY: Gate.RESULT,
}


def in_order(judgements: Sequence[Judgement], *, is_forecast: bool) -> list[Judgement]:
    """
    Return the judgements in the order of their gates. Gates after the first blocked one get the status NOT_REACHED.

    The status of the gate of an output is kept, because the copy in the output does not depend on the next request. In
    a forecast, the gates after the gate of unknown addresses are judged as if the address were known.
    """
    places = {gate: place for place, gate in enumerate(Gate)}
    ordered = sorted(judgements, key=lambda one: places[one.gate])
    is_reached = True
    found = []
    for judgement in ordered:
        is_kept = is_reached or judgement.gate == Gate.OUTPUT
        found.append(judgement if is_kept else replace(judgement, status=Status.NOT_REACHED))
        is_reached = is_reached and not _decides(judgement, is_forecast=is_forecast)
    return found


def first_blocked(judgements: Sequence[Judgement], *, is_forecast: bool) -> Judgement | None:
    """
    Return the gate that decides, which is the first blocked one; None if no gate blocks. In a forecast, the gate of
    unknown addresses does not count.
    """
    return next((one for one in judgements if _decides(one, is_forecast=is_forecast)), None)


def _decides(judgement: Judgement, *, is_forecast: bool) -> bool:
    is_of_forecast = is_forecast and judgement.gate == Gate.KNOWN
    return judgement.status == Status.BLOCKED and judgement.gate != Gate.OUTPUT and not is_of_forecast
