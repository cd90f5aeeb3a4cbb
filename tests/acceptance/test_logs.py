"""Proves that every line of `manage.py run` in JSON mode is JSON, and that the lines report nodes and runs."""

import json
import os
import signal

from jobs.models import Job
from nodes.models import Node
from tests.support.processes import wait_for


def test_each_line_of_run_is_json_and_names_nodes_and_runs(cluster, serve):
    site = serve(pages=20, traps=0)
    job = cluster.make_job(site)
    run = cluster.machine.start("run", "--workers", 1, "--port", 0, CRAWLCTL_LOG_JSON="true")
    wait_for(lambda: Node.objects.filter(kind="worker", status="running").exists(), within=60, saying="a worker runs")
    cluster.start_job(job)
    assert cluster.wait_for_end(job) == "finished"
    os.kill(Node.objects.get(kind="worker", status="running").pid, signal.SIGKILL)
    wait_for(lambda: "started again" in run.err, within=60, saying="the supervisor logs a restart")

    run.send(signal.SIGTERM)
    run.wait()

    lines = [json.loads(line) for line in (run.out + run.err).splitlines()]
    events = " | ".join(line["event"] for line in lines)
    assert "worker worker-1 started" in events
    assert "manager manager-1 ended normally" in events
    of_job = [line for line in lines if line.get("job") == job.pk]
    assert {line["run"] for line in of_job} == {Job.objects.get(pk=job.pk).run_no}
    assert any("finished" in line["event"] for line in of_job)
    assert any(line.get("node") == "manager-1" for line in of_job)
