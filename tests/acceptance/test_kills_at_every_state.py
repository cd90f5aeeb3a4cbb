"""
Proves that a job ends like an undisturbed one after kill -9 of every process in each of its transient states.

Each job has run once. In its second run, one document is new, and another is no longer listed. A document, an output,
the seeding or an absent manager holds the state until all processes are dead.
"""

import pytest

from tests.support.walk import Walk


@pytest.fixture
def walk(cluster, world, sink):
    """Return a job whose second run has something to index and something to remove."""
    walk = Walk(cluster, world, sink)
    walk.make_job()
    walk.world.put("a", links=["b", "old"])
    walk.world.put("b")
    walk.world.put("old")
    walk.cluster.run(walk.job)
    walk.world.put("a", text="other words", links=["b", "new"], waits_for="go")
    walk.world.put("new")
    return walk


def while_ready(walk):
    walk.let_go()
    for manager in walk.managers:
        manager.kill()
    walk.ask("start")
    return "READYFORSTARTUP"


def while_starting(walk):
    walk.let_go()
    walk.world.seeding(waits_for="seed")
    walk.ask("start")
    return "STARTINGUP"


def while_running(walk):
    walk.ask("start")
    walk.is_asked_for(2)
    return "ACTIVE"


def while_pausing(walk):
    while_running(walk)
    walk.ask("pause")
    return "PAUSING"


def while_resuming(walk):
    while_pausing(walk)
    walk.let_go()
    walk.reaches("PAUSED")
    for manager in walk.managers:
        manager.kill()
    walk.ask("resume")
    return "RESUMING"


def while_restarting(walk):
    while_running(walk)
    walk.ask("restart")
    return "ABORTINGFORRESTART"


def while_aborting(walk):
    while_running(walk)
    walk.ask("abort")
    return "ABORTING"


def while_cleaning(walk):
    walk.let_go()
    walk.sink.hold("remove")
    walk.ask("start")
    return "SHUTTINGDOWN"


def while_notifying(walk):
    walk.let_go()
    walk.sink.hold("complete")
    walk.ask("start")
    return "NOTIFYINGOFCOMPLETION"


def die(walk, reach):
    walk.reaches(reach(walk))
    walk.kill_everything()
    for held in ("remove", "complete"):
        walk.sink.let_go(held)
    for signal in ("go", "seed"):
        walk.world.signal(signal)
    walk.start_everything()


@pytest.mark.parametrize(
    "reach",
    [
        while_ready,
        while_starting,
        while_running,
        while_pausing,
        while_resuming,
        while_restarting,
        while_aborting,
        while_cleaning,
        while_notifying,
    ],
)
def test_a_run_whose_processes_all_die_ends_like_an_undisturbed_run(walk, reach):
    die(walk, reach)

    if reach is while_pausing:
        walk.reaches("PAUSED")
        walk.ask("resume")
    if reach is while_aborting:
        walk.ends("aborted")
        assert "old" in walk.held()
        walk.ask("start")
    walk.ends("finished")

    assert walk.held() == {"a", "b", "new"}
    assert sum(walk.cluster.database.documents().values()) == 3
    assert walk.sink.told().count(("complete", "")) >= 2


def before_deletion(walk):
    for manager in walk.managers:
        manager.kill()
    walk.ask("delete", status=202)
    return "READYFORDELETE"


def while_deleting(walk):
    walk.sink.hold("remove")
    walk.ask("delete", status=202)
    return "DELETING"


def while_notifying_of_deletion(walk):
    walk.sink.hold("complete")
    walk.ask("delete", status=202)
    return "NOTIFYINGOFDELETION"


@pytest.mark.parametrize("reach", [before_deletion, while_deleting, while_notifying_of_deletion])
def test_a_deletion_whose_processes_all_die_leaves_nothing(walk, reach):
    die(walk, reach)

    walk.is_gone()

    assert walk.held() == set()
    assert walk.cluster.database.documents() == {}
