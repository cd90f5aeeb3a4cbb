"""
The delete guard of a job of several partitions. Each partition counts its removals, and the control partition requests
one approval of all removals.

When a run may end, each partition stores the removals of its clean-up and sends them. The control partition adds
them up and decides. Each partition then begins its clean-up, or ends its run and waits for the answer.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from jobs.duties import guard
from jobs.duties.context import Pass
from jobs.guard.decision import Facts, should_ask
from jobs.guard.merged import as_json, from_json, merge
from jobs.lifecycle.job import Phase
from jobs.partitions import this_partition
from nodes.membership.fences import hold_term

_STORE: Final[LiteralString] = "UPDATE jobs_partitionedjob SET removals = %(removals)s WHERE job_id = %(job)s"


def count_removals(at: Pass, job: Any) -> None:
    """Count and store the removals of the run, unless this was done before."""
    if _of_run(job) is not None:
        return
    facts = guard.count_in_detail(at, job)
    removals = {
        "run_no": job.run_no,
        "facts": as_json(facts, guard.thresholds_of(job)),
        "examples": guard.examples(at, job) if facts.leaving else [],
    }
    _store(at, job, removals)


def ask(at: Pass, job: Any) -> bool:
    """End the run without its clean-up, since the control partition requests approval; return True if it ended."""
    removals = _of_run(job)
    facts = from_json(removals["facts"]) if removals else Facts(0, 0)
    placement = this_partition.placement()
    reason = ""
    if placement is not None and not placement.is_control:
        reason = f"Partition {placement.control} asks about the removals of all partitions."
    return guard.ask(at, job, facts, removals["examples"] if removals else [], reason=reason)


def decide(at: Pass, job: Any, of_run: Mapping[str, Mapping[str, Any]], others: Sequence[str]) -> bool | None:
    """
    True if an operator must approve the removals of a run of all partitions; None if a partition has not counted yet.

    The removals of all partitions are stored with the request for approval.
    """
    own = _of_run(job)
    if job.phase != Phase.ACTIVE or job.decided_run >= job.run_no or own is None:
        return None
    every = [own]
    for name in others:
        report = of_run.get(name)
        if report is None or (report["phase"] == Phase.ACTIVE and "removals" not in report):
            return None
        if "removals" in report:
            every.append(report["removals"])
    facts = merge([from_json(removals["facts"]) for removals in every])
    thresholds = guard.thresholds_of(job)
    if not should_ask(facts, thresholds):
        return False
    examples = [example for removals in every for example in removals["examples"]]
    _store(at, job, {"run_no": job.run_no, "facts": as_json(facts, thresholds), "examples": examples})
    return True


def _of_run(job: Any) -> Mapping[str, Any] | None:
    return job.removals if job.removals and job.removals["run_no"] == job.run_no else None


def _store(at: Pass, job: Any, removals: Mapping[str, Any]) -> None:
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        at.connection.execute(_STORE, {"removals": Jsonb(removals), "job": job.id})
