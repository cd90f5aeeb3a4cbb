"""What failed nodes and dead one-shots leave behind: the main gives it back."""

from jobs.duties.context import Pass
from jobs.duties.moves import move
from jobs.queue import gates, release
from nodes.lifecycle import CLUSTER_SCOPE


def release_lost_documents(at: Pass) -> int:
    """Give back what failed workers claim, and what is kept for workers that do not take it; returns documents."""
    lost = release.release_of_lost_workers(at.connection, scope=at.scope, term=at.office, now=at.now)
    return lost + release.withdraw_kept_in_vain(at.connection, scope=at.scope, now=at.now)


def open_gates(at: Pass) -> int:
    """Open the gates of nodes that are no more, so that nobody waits behind them for ever; returns how many."""
    return gates.open_gates_of_lost_nodes(at.connection, term=at.office)


def withdraw_from_stopped_jobs(at: Pass) -> int:
    """Take back unsent batches of jobs that were paused or aborted; returns documents."""
    return release.withdraw_of_stopped_jobs(at.connection, scope=at.scope, now=at.now)


def interrupt_dead_one_shots(at: Pass) -> int:
    """
    Leave the jobs of one-shots without a live node paused; returns how many.

    The cluster's main does this for scopes that have no manager: their workers' documents go back, and
    whoever resumes the job finds it at rest. A scope that has never had a node is one that is just
    about to: who resumes a job gives it a new scope before he registers there.
    """
    if at.scope != CLUSTER_SCOPE:
        return 0
    dead = at.connection.execute(
        """
            SELECT job.id, job.node_scope FROM jobs_job AS job
             WHERE job.node_scope <> %s AND job.phase = 'active' AND job.pause <> 'paused' AND job.stop_request = 'none'
               AND EXISTS (SELECT FROM nodes_node AS node WHERE node.scope = job.node_scope)
               AND NOT EXISTS (SELECT FROM nodes_node AS node
                                WHERE node.scope = job.node_scope AND node.status IN ('starting', 'running', 'draining'))
            """,
        (CLUSTER_SCOPE,),
    ).fetchall()
    for job_id, scope in dead:
        release.release_of_lost_workers(at.connection, scope=scope, term=at.office, now=at.now)
        available = at.connection.execute(
            "SELECT id FROM jobs_batch WHERE node_scope = %s AND state = 'available'", (scope,)
        ).fetchall()
        release.withdraw(at.connection, batches=[row[0] for row in available], now=at.now, term=at.office)
        move(at, job_id, "interrupt", reason="its process is gone")
    return len(dead)
