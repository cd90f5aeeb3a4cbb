"""Proves that an export survives kills of its processes, and that no crawl waits for an export."""

import json

import psutil
import pytest

from jobs.exports import verbs, writing
from jobs.exports.models import Export
from nodes.tasks.models import TaskTemplate, TaskWorker
from tests.support.api import make_documents, make_job
from tests.support.processes import QUICK_HEARTBEATS, held_by, wait_for

# Number of rows: slightly more than four parts have.
DOCUMENTS = 4 * writing.ROWS_OF_A_PART + 17


@pytest.fixture(autouse=True)
def no_templates(machine):
    """Remove the built-in templates, whose tasks would run among those of a test."""
    TaskTemplate.objects.all().delete()


@pytest.fixture
def start_worker(cluster, tmp_path):
    def start():
        command = cluster.machine.start("runtasks", **QUICK_HEARTBEATS, CRAWLCTL_EXPORTS=str(tmp_path))
        wait_for(lambda: TaskWorker.objects.filter(pid=command.pid).exists(), saying="the worker is on the roster")
        return command

    return start


def executing_child(command):
    """Return the process that executes the tasks of a worker. It is the first child of the worker."""
    return min(psutil.Process(command.pid).children(), key=lambda child: child.pid)


def wait_for_parts(export, number):
    wait_for(lambda: len(Export.objects.get(pk=export.pk).parts) >= number, within=60, saying=f"{number} parts")


def test_an_export_survives_kills_of_its_process(cluster, start_worker, tmp_path):
    documents = make_documents(make_job(), DOCUMENTS)
    cluster.start("runmanager")
    worker = start_worker()
    export = verbs.request(what="documents", format="jsonl", may=lambda _permission: True, made_by="a test")

    wait_for_parts(export, 1)
    executing_child(worker).kill()
    wait_for_parts(export, 2)
    worker.kill()
    start_worker()

    done = wait_for(
        lambda: Export.objects.exclude(file="").filter(pk=export.pk).first(), within=90, saying="the export has a file"
    )
    lines = (tmp_path / done.file).read_text().splitlines()
    assert done.attempt >= 2
    assert sorted(json.loads(line)["identifier"] for line in lines) == sorted(row.identifier for row in documents)
    assert {path.name for path in tmp_path.glob("export-*")} == {done.file}


def test_a_crawl_ends_normally_although_all_task_workers_were_killed(cluster, start_worker, serve):
    site = serve(pages=100, hosts=2, traps=2)
    cluster.start("runmanager", "runworker")
    worker = start_worker()
    verbs.request(what="documents", format="csv", may=lambda _permission: True, made_by="a test")
    worker.kill()

    job = cluster.make_job(site)
    cluster.start_job(job)

    assert cluster.wait_for_end(job) == "finished"
    assert held_by(cluster.output) == site.documents
