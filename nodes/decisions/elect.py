"""
Who is to be main.

Every scope has one main, and every main a term whose number only grows. There is nothing to agree
upon among managers: each looks at the same row and the same heartbeats, and whoever may take the
office tries to, guarded by the term that it has seen. Two that try at once cannot both succeed.

The oldest live manager goes first. The one behind it waits one beat, the next two, and so on, so
that one that lives but does not act (its work loop is stuck, its clock stands) holds nobody up.

Where a store of coordination chooses one of them beside the database, only that one stands, and nobody
waits for others. The term is taken here all the same, by the same rules about the one before: who has it
twice over is main, and who has lost the one leaves the other.
"""

import datetime as dt
from dataclasses import dataclass

from nodes.decisions.judge import MarkFailed, Steadiness, verdict_on
from nodes.decisions.snapshot import ClusterSeen, NodeSeen
from nodes.lifecycle import NodeStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Elect:
    """The wish to become main of a scope after `seen_term`; `replaces` is the main to be marked failed with it."""

    scope: str
    seen_term: int
    replaces: MarkFailed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resign:
    """The wish to be main no longer."""

    scope: str
    term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Vacancy:
    """The office can be had, and could be for `open_for`."""

    open_for: dt.timedelta
    replaces: MarkFailed | None = None


def elect(
    cluster: ClusterSeen, *, beat: dt.timedelta, is_steady: Steadiness, is_chosen: bool | None = None
) -> Elect | Resign | None:
    """
    Return what I, a manager, have to do about the office of the main, if anything.

    `beat` is the interval of heartbeats and `is_steady` says whether I have beaten without a gap for so long.
    `is_chosen` is whether the store of coordination has me for the main, None where there is none but the database.
    The manager of a one-shot is alone in its scope: it is first in line, and main at once.
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
    # Those ahead of me had their chance for as long as the office was open and I have been here:
    # they are older than me. Counting from the vacancy alone would let the youngest of a cluster
    # that was down for a night overtake the oldest at once.
    uptime = cluster.looked_at - me.started_at
    if is_chosen is None and min(vacancy.open_for, uptime) < candidates.index(me) * beat:
        return None
    return Elect(scope=cluster.scope, seen_term=cluster.term.term, replaces=vacancy.replaces)


def take_over(cluster: ClusterSeen, *, is_steady: Steadiness) -> Elect | None:
    """
    Return the wish to become main of a one-shot's scope that I am not part of, once no manager lives there.

    Whoever resumes a one-shot that died judges its nodes as the main of their scope, and thereby in
    the same order of terms as anybody else who tries: of two that resume, one is refused.
    """
    if any(cluster.live_managers):
        return None
    vacancy = _vacancy(cluster, is_steady=is_steady)
    if vacancy is None or cluster.i_am_main:
        return None
    return Elect(scope=cluster.scope, seen_term=cluster.term.term, replaces=vacancy.replaces)


def _candidates(cluster: ClusterSeen) -> list[NodeSeen]:
    """Live managers at work. One that drains would have to hand the office on, the main on record has it."""
    on_record = None if cluster.term.is_vacant else cluster.term.main_id
    return [node for node in cluster.live_managers if node.status == NodeStatus.RUNNING and node.id != on_record]


def _vacancy(cluster: ClusterSeen, *, is_steady: Steadiness, beat: dt.timedelta = dt.timedelta()) -> _Vacancy | None:
    """Return since when there has been no main, or None as long as there may be one."""
    main = None if cluster.term.is_vacant else cluster.node(cluster.term.main_id)
    if main is None:
        return _Vacancy(open_for=cluster.looked_at - cluster.term.since)
    # It may have lived for a whole beat after its last one, and those ahead of me get theirs only from its end on.
    since_its_end = max(dt.timedelta(), main.heartbeat_age - beat)
    if main.has_ended:
        return _Vacancy(open_for=since_its_end)
    verdict = verdict_on(main, is_steady=is_steady)
    if verdict is None:
        return None
    open_for = since_its_end if main.same_machine_process_gone else main.heartbeat_age - main.timeout
    return _Vacancy(open_for=open_for, replaces=verdict)
