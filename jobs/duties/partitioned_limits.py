"""
Document limits of jobs of several partitions. The control partition divides the places of a limit among the partitions,
and the other partitions report how many they use.
"""

from collections.abc import Mapping
from typing import Any, Final, LiteralString

from jobs.duties.context import Pass
from jobs.duties.finish import has_more, is_stopped_by_limit
from jobs.lifecycle.job import Phase
from jobs.partitions.facts import FactSender
from jobs.partitions.placement import Placement
from jobs.partitions.shares import Share, first_shares, is_limit_reached, redistribute, round_down
from jobs.queue.wake import wake_job
from nodes.membership.fences import hold_term

# Locks: Budget by job.
_CHANGE: Final[LiteralString] = """
UPDATE jobs_budget SET most = greatest(admitted, %(share)s)
 WHERE job_id = %(job)s AND run_no = %(run)s AND most <> greatest(admitted, %(share)s)
"""

Reports = Mapping[str, Mapping[str, Any]]


def divide(
    at: Pass, placement: Placement, job: Any, of_run: Reports, sender: FactSender
) -> tuple[dict[str, int], bool]:
    """
    Return the shares to send to the other partitions of a job, and True if the limit ends the run.

    Without a limit there are no shares. This function changes the share of this partition.
    """
    if job.total is None:
        return {}, False
    first = first_shares(job.total, placement.names)
    sent: dict[str, int | None] = {}
    for name in placement.others:
        last = sender.last(name, f"run:{job.number}") or {}
        sent[name] = last.get("share") if last.get("run_no") == job.run_no else None
    # A partition that was added during the run gets only places that no other partition has.
    left = job.total - (job.most or 0) - sum(share or 0 for share in sent.values())
    shares = {}
    for name, share in sent.items():
        given = min(first[name], max(0, left)) if share is None else share
        left -= given if share is None else 0
        shares[name] = _reported(given, of_run.get(name, {}).get("share"))
    sent_now = {name: share.sent for name, share in shares.items()}
    if job.phase != Phase.ACTIVE:
        return sent_now, False
    own = confirmed(at, job, sent=job.most)
    shares[placement.here] = _reported(job.most, own)
    changed = redistribute(job.total, shares)
    if placement.here in changed:
        apply_share(at, job, changed.pop(placement.here))
    return sent_now | changed, is_limit_reached(job.total, shares)


def _reported(sent: int, report: Mapping[str, Any] | None) -> Share:
    if report is None:
        return Share(sent, sent, is_confirmed=False)
    return Share(sent, report["most"], report["free"], report["lacks"], report["rests"], report["told"] == sent)


def confirmed(at: Pass, job: Any, *, sent: int | None) -> dict[str, Any] | None:
    """Return the report of a partition about its share of a job's limit; None without a limit."""
    if job.most is None:
        return None
    is_used = job.admitted >= job.most and job.phase == Phase.ACTIVE and not job.seeding
    return {
        "told": sent,
        "most": job.most,
        "free": round_down(job.most - job.admitted),
        "lacks": is_used and has_more(at, job),
        "rests": is_used and is_stopped_by_limit(at, job),
    }


def apply_share(at: Pass, job: Any, share: int | None) -> int:
    """Change the share of this partition, but not below the places that it has used; return 1 if it changed."""
    if share is None or job.most is None:
        return 0
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        changed = at.connection.execute(_CHANGE, {"share": share, "job": job.id, "run": job.run_no}).rowcount
    if changed and share > job.most:
        # Documents may wait because the document limit was used up. The larger share may admit them.
        wake_job(at.connection, job_id=job.id, now=at.now)
    return changed
