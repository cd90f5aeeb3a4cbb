"""
Proves that documents are written again if their removal reached a file, was never committed, and is not repeated.
"""

import pytest

from jobs.connectors.output.base import OutputError
from jobs.lifecycle.document import Stage
from jobs.loops.worker.outputs import JobOutputs
from jobs.models import QueueItem
from jobs.verbs import editing
from tests.support.factories import make_output
from tests.support.guarded_site import GuardedSite
from tests.support.processes import held_by

pytestmark = pytest.mark.parametrize(
    "stages", [[], [{"name": "label", "kind": "metadata", "settings": {"set": ["a = b"]}}]]
)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "out.jsonl"


@pytest.fixture
def site(connection, world, file, stages):
    """Return a site after a run. In the next run, its pages are no longer reached, so they are to be removed."""
    site = GuardedSite(connection, world, pages=3, guard_percent=None, outputs=[make_output(file)])
    if stages:
        pipeline = {"stages": [{**stage, "input": "source"} for stage in stages], "outputs": {}}
        editing.change_job(site.job_id, pipeline=pipeline, made_by="operator", now=site.cluster.clock.at)
    site.run()
    site.put_root(links=[])
    site.ask("start")
    return site


def work_until_removals_begin(site, remove_in_vain):
    for _ in range(60):
        for manager in site.cluster.managers:
            manager.work()
        worker = site.cluster.workers[0]
        worker.take()
        if QueueItem.objects.filter(stage=Stage.BEING_CLEANED).exists():
            remove_in_vain(worker)
            return
        worker.process()
        worker.write()
        site.cluster.let_pass(1)
    raise AssertionError("no removal began")


def reach_the_pages_again(site):
    site.ask("abort")
    site.halt()
    site.put_root()
    site.run()


def test_documents_of_a_killed_removal_are_written_when_reached_again(site, file):
    everything = {f"scripted://here/{name}" for name in site.everything}
    assert held_by(file) == everything
    work_until_removals_begin(site, lambda worker: worker.remove_in_vain())
    assert held_by(file) == {"scripted://here/root"}

    site.cluster.fail_worker(site.cluster.workers[0])
    reach_the_pages_again(site)

    assert site.held == site.everything
    assert held_by(file) == everything


def test_documents_of_a_refused_removal_are_written_when_reached_again(site, file, monkeypatch):
    everything = {f"scripted://here/{name}" for name in site.everything}
    remove = JobOutputs.remove

    def refuse(self, cursor, **facts):
        remove(self, cursor, **facts)
        raise OutputError("the second output is full")

    def remove_in_vain(worker):
        with monkeypatch.context() as patched:
            patched.setattr(JobOutputs, "remove", refuse)
            worker.process()

    work_until_removals_begin(site, remove_in_vain)
    assert held_by(file) == {"scripted://here/root"}

    reach_the_pages_again(site)

    assert site.held == site.everything
    assert held_by(file) == everything
