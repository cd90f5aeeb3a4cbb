"""One drill, from the choice of its victim to its report."""

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg

from crawlctl.drill.faults import Fault, Target, Victim, call_repeatedly, choose, cut_database, strike
from crawlctl.drill.models import Drill
from crawlctl.drill.observation import Observation, OutageObservation, Report, Request, judge_requests
from crawlctl.drill.sandbox import GAP, Sandbox, sandbox
from nodes.database.address import database_dsn
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.settings.node_settings import HEARTBEAT_INTERVAL, NODE_TIMEOUT
from nodes.settings.running import current

# Time for all expected events (in timeouts).
_TIMEOUTS_AWAITED: Final = 6
# Time of watching after the last expected event (seconds): fetches resume, and a frozen node wakes.
_AFTERMATH: Final = 5.0

_FETCHES: Final = """
SELECT started_at FROM jobs_activity WHERE activity = 'fetch' AND started_at >= %(since)s ORDER BY started_at LIMIT 100000
"""


@contextmanager
def connected() -> Iterator[psycopg.Connection[Any]]:
    """Provide the connection of a drill."""
    with psycopg.connect(database_dsn(), autocommit=True, application_name="crawlctl drill") as connection:
        yield connection


def perform_in_sandbox(
    fault: Fault, whom: Target, *, seconds: float | None, write_line: Callable[[str], None]
) -> Report:
    """
    Perform a drill in a separate sandbox, as `perform` does.

    Raises:
        NoVictim
        SandboxFailed
    """
    with connected() as connection, sandbox(connection, write_line=write_line) as box:
        return perform(
            connection,
            fault=fault,
            whom=whom,
            seconds=seconds,
            box=box,
            confirm=lambda _node: None,
            write_line=write_line,
        )


def perform(
    connection: psycopg.Connection[Any],
    *,
    fault: Fault,
    whom: Target,
    seconds: float | None,
    box: Sandbox | None,
    confirm: Callable[[str], None],
    write_line: Callable[[str], None],
) -> Report:
    """
    Perform a drill in the sandbox, or on the cluster if there is none. Store and return its report.

    `seconds` is the duration of the fault. By default a freeze lasts twice the victim's timeout, so that the victim
    wakes as a failed node. A cut lasts as long as the timeout, and must not make any node fail. `confirm` gets the name
    of the victim before anything is done, and raises an exception to refuse.

    Raises:
        NoVictim
    """
    scope = box.scope if box else CLUSTER_SCOPE
    victim = None if whom == Target.DATABASE else choose(connection, scope=scope, whom=whom)
    report = _begin(fault, whom, victim, where="sandbox" if box else "cluster")
    confirm(report.node)
    write_line(f"{fault}: {report.node}")
    since = _now(connection)
    if victim is None:
        observation: Observation | OutageObservation = _cut(connection, report, scope=scope, seconds=seconds)
    else:
        observation = _strike(connection, victim, report, seconds=seconds)
    _watch(observation, timeout=_TIMEOUTS_AWAITED * report.timeout)
    report.missing = observation.awaited
    if not report.missing:
        requests = box.requests() if box else _fetches(connection, since=since, began_at=observation.began_at)
        _judge(report, requests, began_at=observation.began_at, in_sandbox=box is not None)
    Drill.objects.create(
        fault=fault,
        whom=whom,
        node=report.node,
        where=report.where,
        is_good=report.is_good,
        report=report.as_facts(),
    )
    return report


def _begin(fault: Fault, whom: Target, victim: Victim | None, *, where: str) -> Report:
    settings = current()
    return Report(
        fault=fault,
        whom=whom,
        node=str(victim) if victim else "the database of all nodes",
        where=where,
        timeout=victim.timeout_seconds if victim else settings[NODE_TIMEOUT].total_seconds(),
        beat=settings[HEARTBEAT_INTERVAL].total_seconds(),
        documents=victim.documents if victim else 0,
        groups=victim.groups if victim else 0,
    )


def _strike(
    connection: psycopg.Connection[Any], victim: Victim, report: Report, *, seconds: float | None
) -> Observation:
    observation = Observation(connection, victim, report)
    strike(victim, report.fault, seconds=seconds or 2 * report.timeout, watch=observation.observe)
    return observation


def _cut(
    connection: psycopg.Connection[Any], report: Report, *, scope: str, seconds: float | None
) -> OutageObservation:
    observation = OutageObservation(connection, report, scope=scope)
    cut_database(connection, scope=scope, seconds=seconds or report.timeout, watch=observation.observe)
    observation.end()
    return observation


def _watch(observation: Observation | OutageObservation, *, timeout: float) -> None:
    """Watch until all expected events have happened, and a little longer; or until the time is over."""
    call_repeatedly(observation.observe, seconds=timeout, until=lambda: not observation.awaited)
    call_repeatedly(observation.observe, seconds=_AFTERMATH)


def _judge(report: Report, requests: Iterable[Request], *, began_at: float, in_sandbox: bool) -> None:
    judge_requests(report, requests, began_at=began_at, gap=GAP)
    if not in_sandbox:
        # On a cluster, the requests come from the activity history. It lacks requests that no node reported, and the
        # allowed pace.
        report.refetched = report.pace = None


def _now(connection: psycopg.Connection[Any]) -> dt.datetime:
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    return row[0]  # type: ignore[no-any-return]


def _fetches(connection: psycopg.Connection[Any], *, since: dt.datetime, began_at: float) -> list[Request]:
    """Return the requests in the activity history since a moment; an empty list if no history is kept."""
    rows = connection.execute(_FETCHES, {"since": since})
    return [
        Request(at=began_at + (at - since).total_seconds(), host=str(number), address="", is_page=False)
        for number, (at,) in enumerate(rows)
    ]
