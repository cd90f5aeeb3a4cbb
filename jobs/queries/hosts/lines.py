"""
Hosts as lines of a list: their limits, rates, waiting documents and verdicts at one moment.

Rates come from the counts that closing turns store with the host (`BinState.starts`, `BinState.bytes_read`). This
process reads them with each list and remembers them, so rates need no writes and no questions to workers. Rates include
the requests of closed turns only. While a host is served, its last turn closed some seconds ago. Only the hosts of the
list are read.
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from django.db import connection

from jobs.models import Bin
from jobs.queries.hosts.latest_requests import LatestRequests, read_latest_requests
from jobs.queries.hosts.limits import LimitLines, PolicyNames, SourceLine
from jobs.queries.hosts.open_documents import OpenDocuments, read_open_documents
from jobs.queries.hosts.selection import find_busiest
from jobs.queries.hosts.waiting import WITHOUT_LANES, read_waiting
from jobs.queries.meter import BYTES, STARTS, metered
from jobs.queue.pace.limits import BOUND, FACTS, AppliedPolicies
from jobs.queue.pace.next_start import LAST_USE_COLUMNS
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.states import read_states
from jobs.throttling.bins import is_limited
from jobs.throttling.limits import Limits
from jobs.throttling.next_start import next_start_at, opens_at
from jobs.throttling.sources import Origin
from jobs.verdicts.causes import Cause, Verdict
from jobs.verdicts.hosts import Above, Known, judge_host
from jobs.verdicts.requests import Requests
from nodes.database.shared_results import kept

# Least number of gaps in the period over which a host's rate is the mean, so that one start more or less does not show.
_GAPS: Final = 10
COLUMNS: Final[LiteralString] = f"""
       {FACTS}, {LAST_USE_COLUMNS}, bin.back_off_until, bin.back_off_level, bin.backing_off_since, bin.stopped_by,
       bin.stopped_why, state.closed_at, state.starts, state.bytes_read, state.open_turns, state.open_requests, bin.is_known,
       bin.parent_id
"""
_FROM: Final[LiteralString] = f"""
  FROM jobs_bin AS bin
 CROSS JOIN LATERAL {read_states("*", of="bin", number="bin.id")} AS state {BOUND}
 WHERE bin.id = ANY(%(hosts)s)
"""
_HOSTS: Final[LiteralString] = f"SELECT {COLUMNS} {_FROM}"
# Reads the parents of hosts, each with the number of documents in the open turns of its hosts.
_ABOVE: Final[LiteralString] = f"""
SELECT {COLUMNS}, (SELECT coalesce(sum(turn.documents), 0)
                      FROM jobs_turn AS turn
                     WHERE turn.closed_at IS NULL AND turn.parents IS NOT NULL AND turn.parents ? bin.id::text)
                   AS open_documents
  {_FROM}
"""
_TOTALS: Final[LiteralString] = """
SELECT id FROM jobs_bin WHERE namespace = 'policy' AND name = ANY(%(policies)s)
"""


@dataclass(frozen=True, slots=True)
class ParentLine:
    """
    The parent of a host: an address, or all hosts of a policy (of the cluster, if the policy applies everywhere).

    `whole` has the limits of all partitions together, if `limits` has only this partition's share.
    """

    id: int
    namespace: str
    name: str
    limits: Limits
    whole: Limits | None
    set_by: LimitLines
    open_requests: int
    opens_at: dt.datetime | None
    is_everywhere: bool
    starts_per_second: float | None
    bytes_per_second: float | None
    open_documents: int


@dataclass(frozen=True, slots=True)
class HostStatus:
    """
    A host at one moment.

    `in_progress` counts documents that are handed out, and `waiting` counts pending documents of active jobs. `lent` is
    the number of requests that the open turns permit workers to have open at the host. `open_requests` is the number of
    open requests; None if no worker reported it. `known` is the input of the verdict, and `latest` the latest requests.
    `next_start_at` is None while the host is served, denied or stopped, or if no document waits for it.
    """

    read_at: dt.datetime
    id: int
    namespace: str
    name: str
    limits: Limits
    set_by: LimitLines
    verdict: Verdict
    known: Known
    latest: Requests
    parents: Sequence[ParentLine]
    lent: int
    open_requests: int | None
    in_progress: int
    waiting: int
    next_start_at: dt.datetime | None
    back_off_level: int
    back_off_until: dt.datetime | None
    backing_off_since: dt.datetime | None
    stopped_at: dt.datetime | None
    stopped_by: str
    stopped_why: str
    starts_per_second: float | None
    bytes_per_second: float | None
    history: Sequence[float | None]

    def parent_of(self, verdict: Verdict) -> ParentLine | None:
        """Return the parent that a verdict on the host, or on its documents, names; None if it names none."""
        return next((above for above in self.parents if above.id == verdict.parent), None)

    @property
    def allowed_starts_per_second(self) -> float | None:
        """Return the allowed rate of starts; None if only the host's answers limit it."""
        if self.limits.denied or self.limits.closed_until is not None:
            return 0.0
        return 1 / self.limits.gap if self.limits.gap else None

    @property
    def limited_since(self) -> dt.datetime | None:
        """Return the moment since which the cause of the verdict on this host holds; None if unknown."""
        return _since(self)


def read_host_statuses(ids: Sequence[int], *, now: dt.datetime) -> list[HostStatus]:
    """Read these hosts, in this order, without hosts that no longer exist."""
    known: dict[int, HostStatus] = kept("hosts")
    known.update((line.id, line) for line in _read([id_ for id_ in ids if id_ not in known], now=now))
    return [known[id_] for id_ in ids if id_ in known]


def observe_busiest_hosts(*, now: dt.datetime) -> None:
    """Record the counts of the busiest hosts, for the rates that a page shows next."""
    read_host_statuses(find_busiest(), now=now)


def _read(ids: Sequence[int], *, now: dt.datetime) -> list[HostStatus]:
    if not ids:
        return []
    connection.ensure_connection()
    with named_rows(connection.connection) as cursor:
        rows = {row.id: row for row in cursor.execute(_HOSTS, {"hosts": list(ids), "policy": None})}
        applied = AppliedPolicies.read(cursor, list(rows.values()), now=now)
        above = _read_above(cursor, rows.values(), applied)
        waiting = read_waiting(cursor, ids)
    latest, open_ = read_latest_requests(now=now), read_open_documents()
    for row in (*rows.values(), *above.values()):
        _observe(row, now=now)
    policies = PolicyNames.of(rows.values(), above.values())
    parents = {row.id: _parent_line(row, applied, policies) for row in above.values()}
    return [
        line_of(
            rows[id_],
            applied,
            policies.lines(applied.sources_of(rows[id_])),
            _parents_of(rows[id_], applied, above, parents),
            waiting.get(id_),
            latest,
            open_,
            now=now,
        )
        for id_ in ids
        if id_ in rows
    ]


def _read_above(cursor: Any, rows: Iterable[Any], applied: AppliedPolicies) -> dict[int, Any]:
    """Return the parents of these hosts, by id."""
    rows = list(rows)
    policies = sorted({policy for row in rows for policy in applied.totals_above(row)})
    ids = {row.parent_id for row in rows if row.parent_id is not None}
    if policies:
        ids |= {row.id for row in cursor.execute(_TOTALS, {"policies": [str(policy) for policy in policies]})}
    if not ids:
        return {}
    return {row.id: row for row in cursor.execute(_ABOVE, {"hosts": sorted(ids), "policy": None})}


def _parents_of(
    row: Any, applied: AppliedPolicies, above: Mapping[int, Any], lines: Mapping[int, ParentLine]
) -> list[ParentLine]:
    totals = {str(policy) for policy in applied.totals_above(row)}
    return [
        lines[id_]
        for id_, other in above.items()
        if id_ == row.parent_id or (other.namespace == Bin.POLICY and other.name in totals)
    ]


def _observe(row: Any, *, now: dt.datetime) -> None:
    if row.open_turns and row.closed_at is None:
        # The host has not closed its first turn, so its counts are not known yet.
        return
    age = (now - row.closed_at).total_seconds() if row.open_turns else 0.0
    STARTS.observe(metered(row.id), row.starts, age=age)
    BYTES.observe(metered(row.id), row.bytes_read, age=age)


def _parent_line(row: Any, applied: AppliedPolicies, policies: PolicyNames) -> ParentLine:
    known = policies.by_id.get(int(row.name)) if row.namespace == Bin.POLICY else None
    limits = applied.of_bin(row)
    return ParentLine(
        id=row.id,
        namespace=row.namespace,
        name=known[0] if known else row.name,
        limits=limits,
        whole=applied.whole_of(row),
        set_by=policies.lines(applied.sources_of(row)),
        # Each turn below a limited parent may have all requests of the parent, because the parent's one worker counts
        # them.
        open_requests=min(row.open_requests, limits.requests) if is_limited(limits) else row.open_requests,
        opens_at=_opens_at(row, limits),
        is_everywhere=bool(known and known[2]),
        starts_per_second=STARTS.rate(metered(row.id)),
        bytes_per_second=BYTES.rate(metered(row.id)),
        open_documents=row.open_documents,
    )


def line_of(
    row: Any,
    applied: AppliedPolicies,
    set_by: LimitLines,
    parents: Sequence[ParentLine],
    waits: Any | None,
    latest: LatestRequests,
    open_: OpenDocuments,
    *,
    now: dt.datetime,
) -> HostStatus:
    limits = applied.of_bin(row)
    waiting = WITHOUT_LANES if waits is None else waits._asdict()
    over = _GAPS * limits.gap
    starts, read = STARTS.rate(metered(row.id), over=over), BYTES.rate(metered(row.id), over=over)
    known = Known(
        limits=limits,
        is_stopped=row.stopped_at is not None,
        open_turns=row.open_turns,
        lent=row.open_requests,
        not_before=_next_start_at(row, limits),
        back_off_until=row.back_off_until,
        back_off_level=row.back_off_level,
        starts_per_second=starts,
        bytes_per_second=read,
        above=[
            Above(one.id, one.limits, one.open_requests, one.opens_at, one.starts_per_second, one.open_documents)
            for one in parents
        ],
        is_known=row.is_known,
        workers_are_full=open_.are_full,
        asks_for_delay=set_by.gap is not None and set_by.gap.source.origin == Origin.ROBOTS,
        open_now=open_.at(row.id),
        changed_at=set_by.gap.since if set_by.gap else None,
        latest=latest.of(row.name),
        **{name: waiting[name] for name in WITHOUT_LANES},
    )
    verdict = judge_host(known, now=now)
    return HostStatus(
        read_at=now,
        id=row.id,
        namespace=row.namespace,
        name=row.name,
        limits=limits,
        set_by=set_by,
        verdict=verdict,
        known=known,
        latest=known.latest,
        parents=parents,
        lent=row.open_requests,
        open_requests=known.open_now,
        in_progress=waiting["in_progress"],
        waiting=waiting["waiting"],
        next_start_at=_next_start(row, waiting, limits, now=now),
        back_off_level=row.back_off_level,
        back_off_until=row.back_off_until,
        backing_off_since=row.backing_off_since if row.back_off_level else None,
        stopped_at=row.stopped_at,
        stopped_by=row.stopped_by,
        stopped_why=row.stopped_why,
        starts_per_second=starts,
        bytes_per_second=read,
        history=STARTS.history(metered(row.id)),
    )


def _next_start(row: Any, waiting: Mapping[str, Any], limits: Limits, *, now: dt.datetime) -> dt.datetime | None:
    if row.open_turns or limits.denied or row.stopped_at or not waiting["waiting"] or waiting["ready_at"] is None:
        return None
    ready_at: dt.datetime = waiting["ready_at"]
    return max(now, ready_at, _opens_at(row, limits) or now)


def _opens_at(row: Any, limits: Limits) -> dt.datetime | None:
    return opens_at(_next_start_at(row, limits), back_off_until=row.back_off_until, closed_until=limits.closed_until)


def _next_start_at(row: Any, limits: Limits) -> dt.datetime | None:
    return next_start_at(row, gap=limits.gap, bytes_per_second=limits.bytes_per_second)


def _since(line: HostStatus) -> dt.datetime | None:
    if line.verdict.failing is not None:
        return line.verdict.failing.failing_since
    if line.verdict.since is not None:
        return line.verdict.since
    match line.verdict.cause:
        case Cause.STOPPED:
            return line.stopped_at
        case Cause.BACK_OFF | Cause.TRIAL:
            return line.backing_off_since
        case _:
            set_by = set_by_of(line, line.verdict)
            return set_by.since if set_by else None


def set_by_of(line: HostStatus, verdict: Verdict) -> SourceLine | None:
    """Return the source of the limit in a verdict on the host or its documents; None for a verdict without a limit."""
    parent = line.parent_of(verdict)
    limits = parent.set_by if parent else line.set_by
    match verdict.cause:
        case Cause.DENIED | Cause.STOPPED | Cause.CLOSED:
            return limits.denied
        case Cause.GAP | Cause.CRAWL_DELAY | Cause.RAMPING:
            return limits.gap
        case Cause.BYTES:
            return limits.bytes_per_second
        case Cause.REQUESTS:
            return limits.requests
        case Cause.PARENT:
            return limits.gap or limits.bytes_per_second or limits.requests
        case _:
            return None
