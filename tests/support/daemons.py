"""Daemons of one cluster as processes, with the jobs that they work on."""

import types

from django.utils import timezone

from jobs.models import Job
from jobs.verbs import control
from tests.support.factories import make_job, make_output, make_policy
from tests.support.processes import QUICK_HEARTBEATS, wait_for

# Largest time from the last heartbeat of a main manager to its replacement (in intervals of heartbeats): the timeout,
# one interval to notice the silence, and one for a busy machine. docs/failures.md states this time.
TAKEOVER_BEATS = 4 + 1 + 1


def beats_to_takeover(cluster, main, heir):
    """Return the time from the last heartbeat of a main manager to the next term (in intervals of heartbeats)."""
    silence = """
        SELECT extract(epoch FROM elected.at - old.heartbeat_at)
          FROM nodes_node AS old, nodes_nodeevent AS elected
         WHERE old.id = %s AND elected.node_id = %s AND elected.kind = 'elected'
    """
    seconds = cluster.database.value(silence, cluster.node_of(main).id, cluster.node_of(heir).id)
    return float(seconds) / float(QUICK_HEARTBEATS["CRAWLCTL_HEARTBEAT_INTERVAL"])


class Cluster:
    """The daemons of one test, and the job that they work on."""

    def __init__(self, machine):
        self.machine, self.database = machine, machine.database
        self.output = machine.directory / "pages.jsonl"

    def start(self, *kinds, **environment):
        """Start daemons, wait until they work, and return their processes."""
        started = [self.machine.start(kind, **(QUICK_HEARTBEATS | environment)) for kind in kinds]
        for daemon in started:
            wait_for(lambda daemon=daemon: self.node_of(daemon).status == "running", saying=f"{daemon.name} works")
        return started

    def node_of(self, daemon):
        found = self.database.rows("SELECT * FROM nodes_node WHERE pid = %s", daemon.pid)
        assert found or not daemon.has_ended, daemon.err
        return found[0] if found else _Absent

    def main(self, *managers):
        """Return the main manager among these managers."""
        main_id = wait_for(
            lambda: self.database.value("SELECT main_id FROM nodes_mainterm WHERE scope = 'cluster' AND NOT resigned"),
            saying="there is a main manager",
        )
        return next(manager for manager in managers if self.node_of(manager).id == main_id)

    def busiest(self, *workers):
        """Return the worker with the most claimed documents, once a worker has any."""
        claimed = """
            SELECT batch.worker_id FROM jobs_batch AS batch JOIN jobs_queueitem AS item ON item.batch_id = batch.id
             WHERE batch.state = 'sent' GROUP BY batch.worker_id ORDER BY count(*) DESC LIMIT 1
        """
        node_id = wait_for(lambda: self.database.value(claimed), saying="a worker has documents")
        return next(worker for worker in workers if self.node_of(worker).id == node_id)

    def make_job(self, site, **policy):
        return make_job(
            "site",
            urls=[site.start_url],
            policy=make_policy(**policy),
            output=make_output(self.output),
            specification={"scope": "any"},
        )

    def start_job(self, job, *, minimal=False):
        start = control.start_minimal if minimal else control.start
        start(job.pk, made_by="a test", now=timezone.now())

    def run(self, job, *, minimal=False):
        """Run a job to its end, and return the reason of the end."""
        self.start_job(job, minimal=minimal)
        return self.wait_for_end(job)

    def wait_for_end(self, job, within=60):
        """Return the reason why the run ended."""
        phase = "SELECT phase FROM jobs_job WHERE id = %s"
        wait_for(lambda: self.database.value(phase, job.pk) == "inactive", within=within, saying="the job has ended")
        return Job.objects.get(pk=job.pk).run_end

    def counted(self, job):
        """Return the job's counters of documents by (stage, result code)."""
        rows = self.database.rows(
            """
            SELECT stage, code, sum(amount) AS amount
              FROM (SELECT job_id, measure, stage, code, amount FROM jobs_counter
                     UNION ALL SELECT job_id, measure, stage, code, amount FROM jobs_counterdelta) AS both_
             WHERE job_id = %s AND measure = 'stage' GROUP BY stage, code HAVING sum(amount) <> 0
            """,
            job.pk,
        )
        return {(row.stage, row.code): row.amount for row in rows}


class _Absent:
    status = "absent"
    settings = types.MappingProxyType({})
