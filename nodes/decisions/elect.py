"""
The election of the main manager.

Every scope has one main manager, and every main manager a term whose number only grows. The managers need no agreement:
each reads the same row and the same heartbeats. A manager that may lead tries to take the leadership. The write
succeeds only if the term is still the one that it has seen. If two try at the same time, only one can succeed.

The oldest live manager goes first. The second waits one beat, the third two, and so on. So a manager that lives but
does not act (its work loop hangs, its clock stands still) delays the others only briefly.

If a store of coordination is used in addition to the database, only the manager that the store chooses tries, and no
manager waits for others. This manager still takes the term in the database, by the same rules about its predecessor.
The main manager leads in both, and if it loses one leadership, it gives up the other.
"""

import datetime as dt
from dataclasses import dataclass

from nodes.decisions.judge import MarkFailed, Steadiness, verdict_on
from nodes.decisions.snapshot import ClusterSeen, NodeSeen
from nodes.lifecycle import NodeStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Elect:
    """
    The decision to become main manager of a scope after `seen_term`. `replaces` is the manager that is marked failed in
    the same transaction.
    """

    scope: str
    seen_term: int
    replaces: MarkFailed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resign:
    """The decision to give up the leadership."""

    scope: str
    term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vacancy:
    """The leadership is vacant, and has been for `open_for`. `replaces` is the recorded main manager to mark failed."""

    open_for: dt.timedelta
    replaces: MarkFailed | None = None


def elect(
    cluster: ClusterSeen, *, beat: dt.timedelta, is_steady: Steadiness, is_chosen: bool | None = None
) -> Elect | Resign | None:
    """
    Return the action of this manager about the leadership, or None.

    `beat` is the interval of heartbeats. `is_steady` tells whether this manager has beaten without a gap for a
    duration. `is_chosen` tells whether the store of coordination chose this manager; None if the database is the only
    store. The manager of a one-shot is alone in its scope: it is first in line, and leads immediately.
    """
    me = cluster.node(cluster.me)
    if me is None:
        return None
    if cluster.i_am_main:
        must_leave = me.status == NodeStatus.DRAINING or is_chosen is False
        return Resign(scope=cluster.scope, term=cluster.term.term) if must_leave else None
    if is_chosen is False:
        return None
    candidates = sorted(_candidates(cluster), key=lambda node: node.seniority)
    if me not in candidates:
        return None
    vacancy = _vacancy(cluster, is_steady=is_steady, beat=beat)
    if vacancy is None:
        return None
    # Older managers had their chance while the leadership was vacant and this manager existed. After a night in which
    # the whole cluster was down, the vacancy alone is long enough for every manager. The youngest could then overtake
    # the oldest.
    uptime = cluster.read_at - me.started_at
    if is_chosen is None and min(vacancy.open_for, uptime) < candidates.index(me) * beat:
        return None
    return Elect(scope=cluster.scope, seen_term=cluster.term.term, replaces=vacancy.replaces)


def take_over(cluster: ClusterSeen, *, is_steady: Steadiness) -> Elect | None:
    """
    Return the decision to lead the scope of a one-shot, once no manager lives there.

    A process that resumes a dead one-shot judges its nodes as the main manager of their scope. So this process needs
    the next term, like any other candidate: if two processes resume the one-shot, one of them is refused.
    """
    if any(cluster.live_managers):
        return None
    vacancy = _vacancy(cluster, is_steady=is_steady)
    if vacancy is None or cluster.i_am_main:
        return None
    return Elect(scope=cluster.scope, seen_term=cluster.term.term, replaces=vacancy.replaces)


def _candidates(cluster: ClusterSeen) -> list[NodeSeen]:
    """
    Return the live managers that run, without the recorded main manager. A draining manager would have to give up the
    leadership immediately.
    """
    on_record = None if cluster.term.is_vacant else cluster.term.main_id
    return [node for node in cluster.live_managers if node.status == NodeStatus.RUNNING and node.id != on_record]


def _vacancy(cluster: ClusterSeen, *, is_steady: Steadiness, beat: dt.timedelta = dt.timedelta()) -> _Vacancy | None:
    """Return the vacancy of the leadership; None while there may be a main manager."""
    main = None if cluster.term.is_vacant else cluster.node(cluster.term.main_id)
    if main is None:
        return _Vacancy(open_for=cluster.read_at - cluster.term.since)
    # The last main manager may have lived for one interval after its last beat, so turns of candidates count from then.
    since_its_end = max(dt.timedelta(), main.heartbeat_age - beat)
    if main.has_ended:
        return _Vacancy(open_for=since_its_end)
    verdict = verdict_on(main, is_steady=is_steady)
    if verdict is None:
        return None
    open_for = since_its_end if main.same_machine_process_gone else main.heartbeat_age - main.timeout
    return _Vacancy(open_for=open_for, replaces=verdict)
