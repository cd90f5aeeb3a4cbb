"""Proves with a scripted source the behaviour on which jobs of every connector can rely."""

import pytest

from tests.support.factories import make_output
from tests.support.processes import held_by, wait_for
from tests.support.scripted import World


@pytest.fixture
def daemons(world, cluster):
    """Start a manager and a worker that know the scriptable connector."""
    cluster.start("runmanager", "runworker")
    return cluster


def test_a_crawl_of_a_scripted_source_processes_each_document_once(daemons, world):
    world.put("a", links=["b", "there/c"])
    world.put("b", links=["a"])
    world.put("there/c", text=None, links=[("d", "peer")])
    world.put("d")
    output = make_output(daemons.output)
    job = world.make_job(seeds=["a"], outputs=[output])

    assert daemons.run(job) == "finished"
    assert sorted(world.processed()) == ["a", "b", "d", "there/c"]
    assert held_by(daemons.output) == {world.url(name) for name in "abd"}
    assert daemons.database.value("SELECT count(*) FROM jobs_bin WHERE namespace = 'scripted' AND is_known") == 2


def test_a_second_run_indexes_changes_and_removes_lost_documents(daemons, world):
    world.put("a", links=["b", "c", "d"])
    for name in "bcd":
        world.put(name)
    job = world.make_job(seeds=["a"], outputs=[make_output(daemons.output)])
    daemons.run(job)

    world.put("a", links=["b", "c"])
    world.put("b", text="other words")
    world.remove("c")

    assert daemons.run(job) == "finished"
    assert held_by(daemons.output) == {world.url("a"), world.url("b")}
    assert daemons.database.documents() == {(2, "OK_UNCHANGED"): 1, (2, "OK"): 1, (2, "GONE"): 1}


def test_a_processing_interrupted_by_its_source_is_retried(daemons, world):
    world.put("a", interruptions=2)
    job = world.make_job(seeds=["a"])

    assert daemons.run(job) == "finished"
    assert world.asked("a") == 3
    assert daemons.database.documents() == {(2, "OK"): 1}


def test_interrupted_seeding_is_retried_with_the_last_stored_version(daemons, world):
    world.put("a")
    world.put("b")
    world.seeding(interruptions=1, names=["b"], version="v1")
    job = world.make_job(seeds=["a"])
    daemons.run(job)

    assert sorted(world.processed()) == ["a", "b"]
    assert world.seedings() == ["", ""]
    assert daemons.database.value("SELECT seeding_version FROM jobs_seed") == "v1"


def test_documents_of_a_missing_connector_wait(world, cluster):
    cluster.start("runmanager")
    cluster.start("runworker", CRAWLCTL_CONNECTORS="")
    world.put("a")
    job = world.make_job(seeds=["a"])

    cluster.start_job(job)
    wait_for(
        lambda: cluster.database.value("SELECT failures FROM jobs_queueitem") == 1, saying="the document was postponed"
    )

    assert world.asked("a") == 0


def test_a_source_that_lists_its_documents_slowly_delays_no_other_source(daemons, world, tmp_path):
    slow, quick = world, World(tmp_path / "quick")
    slow.put("a")
    slow.seeding(waits_for="go", names=["a"])
    quick.put("b")
    waiting = slow.make_job("slow", seeds=["a"])
    daemons.start_job(waiting)
    wait_for(slow.seedings, saying="the slow source is seeding")

    assert daemons.run(quick.make_job("quick", seeds=["b"])) == "finished"
    assert slow.seedings() == [""]
    slow.signal("go")
    assert daemons.wait_for_end(waiting) == "finished"
