"""Failover: the main manager returns the documents of failed nodes and dead one-shot commands to the queue."""

from typing import Final, LiteralString

from django.db import transaction

from jobs.duties.context import Pass
from jobs.duties.housekeep import forget_scope
from jobs.duties.moves import move
from jobs.metrics import crawl
from jobs.models import Job
from jobs.queue import release
from jobs.queue.flushing import gates
from jobs.queue.sql.rows import named_rows
from nodes.lifecycle import CLUSTER_SCOPE

# Largest number of documents of failed workers that are released in one pass. The main manager has to check the cluster
# and stuff between two passes.
_DOCUMENTS_A_PASS: Final = 5_000


def release_lost_documents(at: Pass) -> int:
    """
    Release claims of failed workers, and batches that are reserved for workers that do not take these batches. Return
    the number of documents.
    """
    lost = release.release_of_lost_workers(
        at.connection, scope=at.scope, term=at.held_term, now=at.now, enough=_DOCUMENTS_A_PASS
    )
    crawl.RELEASED.add(lost)
    return lost + release.withdraw_reserved_for_absent(at.connection, scope=at.scope, now=at.now)


def open_gates(at: Pass) -> int:
    """Open the gates of ended nodes, so that no document waits behind them forever; return the number of gates."""
    return gates.open_gates_of_lost_nodes(at.connection, term=at.held_term)


def withdraw_from_stopped_jobs(at: Pass) -> int:
    """Withdraw unsent batches of jobs that were paused or aborted; return the number of documents."""
    return release.withdraw_of_stopped_jobs(at.connection, scope=at.scope, now=at.now)


# Jobs of one-shot commands without a live node. With a node, these jobs would continue or end. A scope that never had a
# node is left out: it will have one soon, because a resumed job gets a new scope before its node registers there.
_DEAD: Final[LiteralString] = """
SELECT job.id, job.node_scope, job.phase = 'active' AND job.stop_request = 'none' AS was_running FROM jobs_job AS job
 WHERE job.node_scope <> %(cluster)s
   AND (job.stop_request <> 'none' OR job.phase = 'active' AND job.pause <> 'paused'
        OR job.phase NOT IN ('inactive', 'ready_for_startup', 'starting_up', 'active'))
   AND EXISTS (SELECT FROM nodes_node AS node WHERE node.scope = job.node_scope)
   AND NOT EXISTS (SELECT FROM nodes_node AS node
                    WHERE node.scope = job.node_scope AND node.status IN ('starting', 'running', 'draining'))
"""


def interrupt_dead_one_shots(at: Pass) -> int:
    """
    Take over the jobs of one-shot commands without a live node; return the number of jobs.

    The main manager of the cluster does this for scopes without a manager. It releases the documents of their workers,
    and a running job becomes paused, ready to be resumed. If the job was about to end, this duty ends it.
    """
    if at.scope != CLUSTER_SCOPE:
        return 0
    with named_rows(at.connection) as cursor:
        dead = cursor.execute(_DEAD, {"cluster": CLUSTER_SCOPE}).fetchall()
    for job in dead:
        crawl.RELEASED.add(
            release.release_of_lost_workers(at.connection, scope=job.node_scope, term=at.held_term, now=at.now)
        )
        available = at.connection.execute(
            "SELECT id FROM jobs_batch WHERE node_scope = %s AND state = 'available'", (job.node_scope,)
        ).fetchall()
        release.withdraw(at.connection, batches=[row[0] for row in available], now=at.now, term=at.held_term)
        # The job leaves its scope last. If this main manager dies before that, the next main manager finds the job
        # again.
        forget_scope(at.connection, scope=job.node_scope)
        with transaction.atomic():
            if job.was_running and not move(at, job.id, "interrupt", reason="its process no longer exists"):
                continue
            Job.objects.filter(pk=job.id, node_scope=job.node_scope).update(node_scope=CLUSTER_SCOPE)
    return len(dead)
