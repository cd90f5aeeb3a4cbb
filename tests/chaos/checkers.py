"""
Invariants checked from outside: from the sites' logs, the audit log and the outputs.

No checker opens a database or asks a daemon. Each checker is a function from files to findings. So each can be tested
with a broken history (tests/unit/test_chaos_checkers.py) and with broken daemons (tests/chaos/mutants.py).
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from crawlctl.demo.log import LoggedRequest
from tests.chaos.audit import Write
from tests.chaos.stalls import Stall

# Seconds by which a site may see two starts closer together than the worker made them.
TOLERANCE = 0.02

PENDING, ACTIVE = 0, 1


# --- Sites ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Freeze:
    """An interval of the monotonic clock, in seconds, in which an agent did nothing."""

    agent: str
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Fetch:
    """
    One request as the site saw it, from its arrival until its answer or its end; monotonic seconds.

    `size` is the number of body bytes sent.
    """

    url: str
    host: str
    agent: str
    start: float
    end: float
    status: int = 200
    size: int = 0


def fetches(starts: Iterable[LoggedRequest], ends: Iterable[LoggedRequest]) -> list[Fetch]:
    """Combine arrivals and ends of requests, in the order of arrival."""
    over: dict[tuple[str, str], list[tuple[float, int]]] = defaultdict(list)
    for end in ends:
        over[end.url, end.agent].append((end.time / 1e9, end.size))
    for of_request in over.values():
        of_request.reverse()
    made = []
    for request in starts:
        of_request = over[request.url, request.agent]
        # A request that was still open when the site ended counts as open forever.
        end, size = of_request.pop() if of_request else (float("inf"), 0)
        start = request.time / 1e9
        made.append(Fetch(request.url, request.host, request.agent, start, end, request.status, size))
    return made


@dataclass(frozen=True, slots=True)
class Overlaps:
    """
    Pairs of simultaneous fetches of one document. In the pairs of `frozen`, the agent of the first fetch was frozen.
    """

    wrong: list[tuple[Fetch, Fetch]]
    frozen: list[tuple[Fetch, Fetch]]


def overlaps(made: Iterable[Fetch], freezes: Sequence[Freeze]) -> Overlaps:
    """
    Find documents that were fetched twice at the same time. robots.txt is not a document, because every worker
    reads robots.txt itself.
    """
    found = Overlaps([], [])
    by_url: dict[str, list[Fetch]] = defaultdict(list)
    for fetch in made:
        if not fetch.url.endswith("/robots.txt"):
            by_url[fetch.url].append(fetch)
    for of_url in by_url.values():
        for earlier, later in pairwise(sorted(of_url, key=lambda fetch: fetch.start)):
            if later.start < earlier.end:
                was_frozen = is_frozen(earlier.agent, later.start, freezes)
                (found.frozen if was_frozen else found.wrong).append((earlier, later))
    return found


def is_frozen(agent: str, at: float, freezes: Iterable[Freeze]) -> bool:
    """True if an agent was frozen at that moment."""
    return any(freeze.agent == agent and freeze.since <= at <= freeze.until for freeze in freezes)


@dataclass(frozen=True, slots=True)
class Pace:
    """
    Distance of the requests from a site's limits: percent of the starts that the minimum gap allows, and open requests.

    `worst` are the two closest starts, `least_gap` seconds apart.
    """

    percent: float
    most_open: int
    worst: tuple[Fetch, Fetch] | None
    least_gap: float | None


def pace(
    made: Iterable[Fetch],
    *,
    gap: float,
    open_requests: int,
    freezes: Sequence[Freeze] = (),
    stalls: Sequence[Stall] = (),
) -> Pace:
    """
    Compare every host's starts and open requests with its limits.

    The closest sliding window is the one between two successive starts: the mean of several gaps is never less than the
    smallest of them. So checking pairs covers windows of every length. Too many open requests are also reported as a
    percentage of their limit. Requests of a frozen process do not count, because sent requests cannot be taken back.
    A start logged after the site stood still may have come at any time since the site stopped.
    """
    by_host: dict[str, list[Fetch]] = defaultdict(list)
    for fetch in made:
        by_host[fetch.host].append(fetch)
    worst: tuple[Fetch, Fetch] | None = None
    least = math.inf
    most_open = 0
    for of_host in by_host.values():
        of_host.sort(key=lambda fetch: fetch.start)
        for earlier, later in pairwise(of_host):
            distance = later.start - earliest_start(earlier, stalls)
            if distance < least:
                worst, least = (earlier, later), distance
        still_open: list[Fetch] = []
        for fetch in of_host:
            still_open = [other for other in still_open if other.end > fetch.start]
            frozen = sum(is_frozen(other.agent, fetch.start, freezes) for other in still_open)
            still_open.append(fetch)
            most_open = max(most_open, len(still_open) - frozen)
    percent = 100 * (gap - TOLERANCE) / max(least, 1e-6)
    if most_open > open_requests:
        percent = max(percent, 100 * most_open / open_requests)
    return Pace(percent, most_open, worst, None if worst is None else least)


def earliest_start(fetch: Fetch, stalls: Sequence[Stall]) -> float:
    """Return the earliest moment at which a request may have reached the site: the start of a stall, if the request was logged
    during or right after the stall; otherwise the logged moment."""
    return min(
        (stall.since for stall in stalls if stall.since <= fetch.start <= stall.until + TOLERANCE), default=fetch.start
    )


# --- Outputs -------------------------------------------------------------------------------------


def lost(expected: Iterable[str], held: Iterable[str]) -> list[str]:
    """Return the documents that are missing in the output according to the site's plan."""
    return sorted(set(expected) - set(held))


def extra(expected: Iterable[str], held: Iterable[str]) -> list[str]:
    """Return the documents that the output must not hold."""
    return sorted(set(held) - set(expected))


# --- Commits -------------------------------------------------------------------------------------

_FINAL = frozenset({"stopped", "failed"})
# State changes of a job that only a main manager makes.
_TRANSITIONS_BY_MAINS = frozenset({("ready_for_startup", "starting_up"), ("active", "shutting_down")})


@dataclass(frozen=True, slots=True)
class Stale:
    """A committed write whose writer had been replaced. `fence` names the fence that should have refused it."""

    fence: str
    write: Write
    why: str


def stale_writes(log: Iterable[Write]) -> list[Stale]:
    """Find commits of failed nodes, of main managers after their term, of former owners, and of lost claims."""
    cluster = _Cluster()
    found: list[Stale] = []
    for of_transaction in _transactions(log):
        # An election and the mark of the replaced node belong to the term that begins with them.
        for write in of_transaction:
            if write.what == "term":
                found += cluster.see_term(write)
        for write in of_transaction:
            found += cluster.judge(write)
    return found


def _transactions(log: Iterable[Write]) -> Iterable[list[Write]]:
    together: list[Write] = []
    for write in log:
        if together and together[0].transaction != write.transaction:
            yield together
            together = []
        together.append(write)
    if together:
        yield together


class _Cluster:
    """The state of nodes, main managers, groups and batches after the committed writes so far."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}
        self._kinds: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._mains: dict[str, str | None] = {}
        self._terms: dict[str, int] = {}
        self._owners: dict[int, str | None] = {}
        self._epochs: dict[int, int] = {}
        self._workers: dict[int, str | None] = {}

    def see_term(self, write: Write) -> list[Stale]:
        scope, term = write.after["scope"], write.after["term"]
        self._mains[scope] = None if write.after["resigned"] else write.after["main_id"]
        is_older = term < self._terms.get(scope, 0)
        self._terms[scope] = max(term, self._terms.get(scope, 0))
        return [Stale("term", write, f"term {term} came after term {self._terms[scope]}")] if is_older else []

    def judge(self, write: Write) -> list[Stale]:
        """Judge one write, then apply it to the state."""
        see = getattr(self, f"_see_{write.what}", lambda _write: [])
        return [*self._judge_writer(write), *see(write)]

    def _node_of(self, write: Write) -> str:
        """Return the node of a session by its id, or by its process name for Django's sessions, which have no id."""
        return self._names.get(write.writer, write.writer)

    def _judge_writer(self, write: Write) -> list[Stale]:
        """Report a write of a failed or stopped node. Only the record of its refusal is allowed."""
        node = self._node_of(write)
        if write.what in {"refused", "term"} or self._nodes.get(node) not in _FINAL:
            return []
        return [Stale("node", write, f"the node was {self._nodes[node]}")]

    def _main_only(self, write: Write) -> list[Stale]:
        node = self._node_of(write)
        if self._kinds.get(node) != "manager" or node in self._mains.values():
            return []
        return [Stale("term", write, "only a main manager may, and the writer is none")]

    def _see_node(self, write: Write) -> list[Stale]:
        node, status = write.after["id"], write.after["status"]
        before = self._nodes.get(node)
        self._nodes[node], self._kinds[node] = status, write.after["kind"]
        self._names[write.after["name"]] = node
        found = [Stale("terminal", write, f"a {before} node became {status}")] if before in _FINAL else []
        return [*found, *(self._main_only(write) if status == "failed" else [])]

    def _see_beat(self, write: Write) -> list[Stale]:
        return [Stale("terminal", write, f"a {write.after['status']} node beats")]

    def _see_job(self, write: Write) -> list[Stale]:
        move = (write.before["phase"], write.after["phase"])
        return self._main_only(write) if move in _TRANSITIONS_BY_MAINS else []

    def _see_group(self, write: Write) -> list[Stale]:
        """Check that a main manager gave the group, or that its owner handed it over."""
        group, owner, epoch = (write.after[name] for name in ("id", "owner_id", "epoch"))
        is_older = epoch < self._epochs.get(group, 0)
        is_given = write.after["state"] == "owned" and owner != self._owners.get(group)
        self._owners[group] = owner if write.after["state"] == "owned" else None
        self._epochs[group] = epoch
        found = [Stale("group", write, "its epoch went back")] if is_older else []
        is_handed_over = (write.before.get("state"), write.before.get("owner_id")) == (
            "releasing",
            self._node_of(write),
        )
        return [*found, *(self._main_only(write) if is_given and not is_handed_over else [])]

    def _see_batch(self, write: Write) -> list[Stale]:
        batch, state = write.after["id"], write.after["state"]
        self._workers[batch] = write.after["worker_id"]
        if not write.before:
            if write.after["manager_id"] != self._owners.get(write.after["group_id"]):
                return [Stale("group", write, "offered by a manager that does not own the group")]
        elif (write.before["state"], state) == ("sent", "released"):
            return self._main_only(write)
        return []

    def _see_document(self, write: Write) -> list[Stale]:
        """Check that a worker ends only claims of its own batches."""
        node, batch = self._node_of(write), write.before.get("batch_id")
        if self._kinds.get(node) != "worker":
            return []
        if batch is None and write.after["batch_id"] is None:
            return [Stale("claim", write, "an outcome of a document without a claim")]
        if batch is not None and self._workers.get(batch) != node:
            return [Stale("claim", write, f"an outcome of a document that {self._workers.get(batch)} had claimed")]
        return []


def refused(log: Iterable[Write]) -> int:
    """Return the number of refused writes of replaced nodes."""
    return sum(
        write.after["refused_writes"] - write.before["refused_writes"] for write in log if write.what == "refused"
    )


# --- Schedules -----------------------------------------------------------------------------------


def misfires(log: Iterable[Write], *, job: int, openings: Sequence[float]) -> list[str]:
    """
    Compare the starts of a job with the moments at which its schedule should start it.

    An opening while the job runs is skipped. A late start serves all openings before it.
    """
    moves = [write for write in log if write.what == "job" and write.after["id"] == job]
    starts = [write.at for write in moves if write.before["phase"] == "inactive" != write.after["phase"]]
    ends = [write.at for write in moves if write.before["phase"] != "inactive" == write.after["phase"]]
    found = []
    for before, start in pairwise([float("-inf"), *starts]):
        if not any(before < opening <= start for opening in openings):
            found.append(f"job {job} started at {start:.1f}, when nothing had opened since {before:.1f}")
    for opening in openings:
        was_running = sum(start < opening for start in starts) > sum(end <= opening for end in ends)
        if not was_running and not any(start >= opening for start in starts):
            found.append(f"job {job} did not start though its window opened at {opening:.1f}")
    return found


# --- Takeovers -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MainLoss:
    """The loss of a main manager that a fault stopped, with the moment (by the database's clock) and the cause."""

    main: str
    at: float
    fault: str


def takeovers(log: Iterable[Write], losses: Iterable[MainLoss], *, beat: float) -> list[tuple[MainLoss, float]]:
    """Return for each lost main manager the number of heartbeat intervals until a successor was main manager."""
    terms = [write for write in log if write.what == "term" and not write.after["resigned"] and write.after["main_id"]]
    found = []
    for loss in losses:
        after = (write.at for write in terms if write.at > loss.at and write.after["main_id"] != loss.main)
        found.append((loss, (next(after, float("inf")) - loss.at) / beat))
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """Return the percentile of the values by the nearest rank, or 0 if there are no values."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * int(share) // 100) - 1)] if ordered else 0.0


# --- Verdict -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The findings of the checkers. `takeovers` are in intervals of heartbeats; `bound` is the limit of their median."""

    lost: int
    extra: int
    overlap: int
    overlap_frozen: int
    stale_accepted: int
    stale_refused: int
    pace: float
    misfires: int
    takeovers: Sequence[float]
    bound: float
    steps_by_hand: int

    @property
    def holds(self) -> bool:
        # On a busy machine, a median of one or two values proves nothing.
        is_quick = len(self.takeovers) < 3 or statistics.median(self.takeovers) <= self.bound
        nothing_of = (self.lost, self.extra, self.overlap, self.stale_accepted, self.misfires, self.steps_by_hand)
        return not any(nothing_of) and self.pace <= 100 and is_quick

    @property
    def lines(self) -> list[str]:
        p95, most = percentile(self.takeovers, 95), max(self.takeovers, default=0)
        return [
            f"misfires {self.misfires}",
            f"lost {self.lost}",
            f"overlap {self.overlap}",
            f"stale accepted {self.stale_accepted}",
            f"stale refused {self.stale_refused}",
            f"pace max {self.pace:.0f} %",
            f"takeover beats p95 {p95:.1f} max {most:.1f}",
            f"steps by hand {self.steps_by_hand}",
        ]

    @property
    def facts(self) -> Mapping[str, object]:
        """Return the findings for a JSON file."""
        return {
            "holds": self.holds,
            "lost": self.lost,
            "extra": self.extra,
            "overlap": self.overlap,
            "overlap_of_frozen": self.overlap_frozen,
            "stale_accepted": self.stale_accepted,
            "stale_refused": self.stale_refused,
            "misfires": self.misfires,
            "pace_percent": round(self.pace, 1),
            "takeovers": len(self.takeovers),
            "takeover_beats_median": round(statistics.median(self.takeovers), 1) if self.takeovers else 0,
            "takeover_beats_p95": round(percentile(self.takeovers, 95), 1),
            "takeover_beats_max": round(max(self.takeovers, default=0), 1),
            "takeover_bound": self.bound,
            "steps_by_hand": self.steps_by_hand,
        }
