"""The exchange of rows with other partitions, and the references that arrive through it."""

from dataclasses import asdict
from typing import Any, Final, LiteralString

from jobs.connectors.repository import registry
from jobs.duties.context import Pass
from jobs.duties.one_by_one import one_by_one
from jobs.partitions import this_partition
from jobs.partitions.agreement import without_leaving
from jobs.partitions.exchange import begin_again_after_restore, keep_publications, keep_subscriptions
from jobs.partitions.existing_jobs import forget_deleted
from jobs.partitions.facts import FactSender, forget_superseded
from jobs.partitions.move_notes import is_on
from jobs.partitions.slots import keep_map, read_map
from jobs.queries.partitions import ALIVE, alive_fact, figures_of_jobs
from jobs.queue.flushing.arrivals import apply_arrivals
from jobs.queue.flushing.redirects import FORGET_REDIRECTS
from jobs.queue.sql.rows import named_rows
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership.fences import hold_term

# Runs with references that arrived and can be applied.
_WITH_ARRIVALS: Final[LiteralString] = """
SELECT known.number, job.id, job.run_no, repository.connector
  FROM jobs_partitionedjob AS known JOIN jobs_job AS job ON job.id = known.job_id AND job.phase = 'active'
  JOIN jobs_repositoryconnection AS repository ON repository.id = job.repository_id
 WHERE EXISTS (SELECT FROM jobs_foreignreference AS arrived
                WHERE arrived.job_number = known.number AND arrived.run_no = job.run_no AND arrived.target = %(here)s)
"""
# References of ended runs: no run waits for them.
_FORGET: Final[LiteralString] = """
DELETE FROM jobs_foreignreference AS reference
 USING jobs_partitionedjob AS known JOIN jobs_job AS job ON job.id = known.job_id
 WHERE known.number = reference.job_number
   AND (job.run_no > reference.run_no OR job.run_no = reference.run_no AND job.phase = 'inactive')
"""
_FORGET_LINKS: Final[LiteralString] = """
DELETE FROM jobs_foreignlink AS link
 USING jobs_partitionedjob AS known JOIN jobs_job AS job ON job.id = known.job_id
 WHERE link.job_id = job.id AND link.run_no < job.run_no AND job.phase = 'inactive' AND job.run_end = 'finished'
"""
MAY_EXCHANGE: Final[LiteralString] = f"%(scope)s = '{CLUSTER_SCOPE}'"
HAS_FACTS: Final[LiteralString] = f"{MAY_EXCHANGE} AND EXISTS (SELECT FROM jobs_partitionfact)"
SHARED_JOBS: Final[LiteralString] = f"{MAY_EXCHANGE} AND EXISTS (SELECT FROM jobs_partitionedjob)"


def keep_exchange(at: Pass) -> int:
    """
    Make missing publications for other partitions, and missing subscriptions to the publications of other partitions.
    Return the number of changes.
    """
    placement = this_partition.placement()
    if placement is None:
        return 0
    present = without_leaving(at.connection, placement)
    made = keep_publications(at.connection, present)
    made += begin_again_after_restore(at.connection, present)
    made += keep_subscriptions(at.connection, present, this_partition.addresses())
    made += keep_map(at.connection, placement)
    forget_superseded(at.connection, placement.here)
    forget_deleted(at.connection)
    return made


def send_figures(at: Pass) -> int:
    """
    Note the documents and the rate of this partition, and send them to the control partition with the counts of its
    jobs. Return 0, because no work waits for the figures.
    """
    placement = this_partition.placement()
    if placement is None:
        return 0
    sender = FactSender(at.connection, placement.here, "figures", "life")
    processed = waiting = 0
    # Read through the duty's connection. Django's connection would have to be opened again every few calls.
    for one in figures_of_jobs(at.connection):
        processed, waiting = processed + one.counts.processed, waiting + one.counts.waiting
        if not placement.is_control:
            body = {"run_no": one.run_no, "counts": asdict(one.counts)}
            sender.send(placement.control, f"figures:{one.number}", body)
    before = sender.last(placement.here, ALIVE)
    epoch = None if is_on(at.connection) else read_map(at.connection, placement.names).epoch
    life = alive_fact(before, processed=processed, waiting=waiting, epoch=epoch, now=at.now)
    if before is None or life | {"at": None} != {**before, "at": None}:
        sender.send(placement.here, ALIVE, life)
    if not placement.is_control:
        sender.send(placement.control, ALIVE, life)
    return 0


def receive_references(at: Pass) -> int:
    """Apply references that arrived from other partitions; return their number."""
    placement = this_partition.placement()
    if placement is None:
        return 0
    with named_rows(at.connection) as cursor:
        runs = cursor.execute(_WITH_ARRIVALS, {"here": placement.here}).fetchall()
    placed = this_partition.placement_of_hosts(at.connection) if runs else None
    if placed is None:
        return 0
    foreign = placed.foreign

    def apply(run: Any) -> int:
        return apply_arrivals(
            at.connection,
            term=at.held_term,
            here=placement.here,
            number=run.number,
            job_id=run.id,
            run_no=run.run_no,
            bins=registry.find(run.connector).bins,
            now=at.now,
            foreign=foreign,
        )

    # One job after the other, because an error of one job must not stop the others: its connector may be missing here.
    return one_by_one(runs, apply, name=lambda run: f"job {run.id}")


def forget_references(at: Pass) -> int:
    """Delete references, links and redirects of runs that are over; return the number of deleted rows."""
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        forgotten = at.connection.execute(_FORGET).rowcount
        forgotten += at.connection.execute(FORGET_REDIRECTS).rowcount
        return forgotten + at.connection.execute(_FORGET_LINKS).rowcount
