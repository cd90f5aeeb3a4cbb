"""Proves that two concurrent transactions leave the queue as if one had run after the other, in either order."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest
from django.db import connection as django_connection
from django.utils import timezone

from jobs.connectors.repository.base import Ending
from jobs.connectors.repository.web.kind import WEB
from jobs.duties.context import Pass
from jobs.duties.finish import JOBS_WITHOUT_CLAIMS, _move
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.loops.worker.outputs import JobOutputs
from jobs.models import (
    Batch,
    Bin,
    BinState,
    CounterDelta,
    IndexedDocument,
    Job,
    LaneState,
    OutLinks,
    QueueItem,
    Turn,
)
from jobs.queue.flushing.flush import flush
from jobs.queue.offering.stuff import stuff
from jobs.queue.offering.stuff_removals import stuff_removals
from jobs.queue.pace.close import ClosedTurn, Pace, close_turns
from jobs.queue.release import give_back, release_of_lost_workers
from jobs.queue.removing.drop import drop
from jobs.queue.seeds import discover_seeds
from jobs.queue.sql.rows import named_rows
from jobs.queue.take import take
from jobs.throttling.bins import DOCUMENTS_A_TURN, LOST_PLACE
from jobs.verbs import control
from nodes.membership import leadership
from nodes.membership.fences import FenceRefused
from tests.support.cluster import NOON, elect_main, fall_silent, register_node, seconds
from tests.support.factories import (
    facts_of,
    hash_of,
    make_documents,
    make_lane,
    make_output,
    make_policy,
    make_reference,
    make_result,
    make_running_job,
    state_of,
)


@pytest.fixture
def running(manager):
    """Return a job in the middle of its run."""
    return make_running_job(manager, policy=make_policy(open_requests=1000))


def stuff_all(connection, running, *, workers=1, room=1000):
    return stuff(connection, manager=running.manager.id, group=running.group, room=room, workers=workers, now=NOON)


def take_all(connection, worker, *, room=1000):
    """Return the documents that the worker takes."""
    taken = take(connection, worker=worker.id, room=room, idle=True, now=NOON)
    return [claimed for turn in taken.turns for claimed in turn.documents]


def flush_all(connection, worker, results, **facts):
    return flush(connection, worker=worker.id, results=results, now=NOON, **facts)


def close_open_turns(connection):
    rows = connection.execute("SELECT id FROM jobs_turn WHERE closed_at IS NULL")
    close_turns(connection, turns=[ClosedTurn(turn, None) for (turn,) in rows], now=NOON)


def stages():
    return sorted(QueueItem.objects.values_list("stage", flat=True))


# --- Seeds against another insert ---------------------------------------------------------------

INSERT_KNOWN = """
INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, action, depth, redirects)
VALUES (%s, %s, %s, 'http://a.example/restored', %s, true, false, 1, 0, 3, 0)
"""


def test_a_seed_that_is_restored_meanwhile_belongs_to_the_run(connection, other_connection, rival, running):
    lane = make_lane(running.seed)
    reference = make_reference("restored")
    Job.objects.filter(pk=running.job.pk).update(phase="starting_up", run_no=2)

    with connection.transaction():
        connection.execute(INSERT_KNOWN, [reference.hash, running.job.pk, lane.pk, Stage.DONE])
        rival.start_and_wait(
            discover_seeds,
            other_connection,
            manager=running.manager.id,
            group=running.group,
            job_id=running.job.pk,
            seed_id=running.seed.pk,
            urls=running.seed.urls,
            bins=WEB.bins,
            references=[reference, make_reference("new")],
            now=NOON,
        )

    assert rival.result() == 2
    found = QueueItem.objects.values_list("identifier", "stage", "run_no", "depth").order_by("identifier")
    assert list(found) == [
        ("http://a.example/new", Stage.PENDING, 2, 0),
        ("http://a.example/restored", Stage.PENDING, 2, 0),
    ]


# --- Stuffing while its node fails or its group moves --------------------------------------------


def test_stuffing_waits_while_its_node_is_marked_failed_and_is_refused(connection, other_connection, rival, running):
    make_documents(make_lane(running.seed), 3)

    with connection.transaction():
        connection.execute("SELECT 1 FROM nodes_node WHERE id = %s FOR UPDATE", [running.manager.id])
        rival.start_and_wait(stuff_all, other_connection, running)
        connection.execute(
            "UPDATE nodes_node SET status = 'failed', reason = 'a test', stopped_at = now() WHERE id = %s",
            [running.manager.id],
        )

    with pytest.raises(FenceRefused, match="node fence"):
        rival.result()
    assert stages() == [Stage.PENDING] * 3
    assert not Batch.objects.exists()


def test_marking_a_node_failed_waits_for_its_stuffing(connection, other_connection, rival, running):
    main = register_node(connection, "manager")
    term = elect_main(connection, main)
    verdict = fall_silent(connection, running.manager)
    make_documents(make_lane(running.seed), 3)

    with connection.transaction():
        assert stuff_all(connection, running).documents == 3
        # A mark first ends the sessions that are recorded for its node. This session is not recorded.
        rival.start_and_wait(leadership.mark_failed, other_connection, verdict=verdict, term=term)

    assert rival.result()
    assert stages() == [Stage.ACTIVE] * 3


def test_a_manager_that_lost_its_group_while_it_waited_stuffs_nothing(connection, other_connection, rival, running):
    make_documents(make_lane(running.seed), 3)

    with connection.transaction():
        connection.execute("UPDATE jobs_throttlegroup SET epoch = epoch + 1")
        rival.start_and_wait(stuff_all, other_connection, running)

    with pytest.raises(FenceRefused, match="group fence"):
        rival.result()
    assert stages() == [Stage.PENDING] * 3


def test_a_group_moves_only_after_the_stuffing_under_its_old_epoch(connection, other_connection, rival, running):
    make_documents(make_lane(running.seed), 3)

    with connection.transaction():
        stuff_all(connection, running)
        rival.start_and_wait(other_connection.execute, "UPDATE jobs_throttlegroup SET epoch = epoch + 1")

    rival.result()
    assert stages() == [Stage.ACTIVE] * 3
    with pytest.raises(FenceRefused, match="group fence"):
        stuff_all(connection, running)


@pytest.mark.parametrize("verb", ["pause", "abort"])
def test_a_stop_of_a_job_waits_for_stuffing_and_nothing_is_stuffed_later(
    connection, other_connection, rival, running, verb
):
    lane = make_lane(running.seed)
    make_documents(lane, 3)

    with connection.transaction():
        stuff_all(connection, running)
        rival.start_and_wait(_ask, verb, running.job.pk)
    rival.result()

    assert stages() == [Stage.ACTIVE] * 3
    make_documents(lane, ["later"])
    LaneState.objects.update(ready_at=NOON)
    assert stuff_all(connection, running).documents == 0


def _ask(verb, job_id):
    try:
        getattr(control, verb)(job_id, made_by="a test", now=NOON)
    finally:
        django_connection.close()


def test_stuffing_that_waited_for_a_pause_offers_nothing(connection, other_connection, rival, running):
    make_documents(make_lane(running.seed), 3)

    with connection.transaction():
        connection.execute("UPDATE jobs_job SET pause = 'pausing' WHERE id = %s", [running.job.pk])
        rival.start_and_wait(stuff_all, other_connection, running)

    assert rival.result().documents == 0
    assert stages() == [Stage.PENDING] * 3


# --- Two stuffers --------------------------------------------------------------------------------


def test_two_concurrent_stuffers_of_one_group_share_its_documents(connection, other_connection, running):
    make_documents(make_lane(running.seed, "a.example"), [f"a{n}" for n in range(20)])
    make_documents(make_lane(running.seed, "b.example"), [f"b{n}" for n in range(20)])

    with connection.transaction():
        first = stuff_all(connection, running, room=1)
        # The other stuffer skips the bins that the first one reads, and does not wait for them.
        assert stuff_all(other_connection, running).documents == 0
    second = stuff_all(other_connection, running)

    assert (first.documents, second.documents) == (20, 20)
    assert QueueItem.objects.filter(stage=Stage.ACTIVE).count() == 40
    assert sum(Batch.objects.values_list("documents", flat=True)) == 40


def test_an_empty_lane_sleeps_and_does_not_displace_other_lanes(connection, running):
    for name in "abcdef":
        make_lane(running.seed, f"{name}.example")
    full = make_lane(running.seed, "full.example")
    make_documents(full, 10)

    # There is room for the turns of one bin only, so empty lanes must not stay first in the queue.
    offered = [stuff_all(connection, running, room=1).documents for _ in range(7)]

    assert sum(offered) == 10
    assert set(LaneState.objects.exclude(lane=full).values_list("ready_at", flat=True)) == {None}


def test_a_lane_without_due_documents_leaves_its_place_to_the_next_lane(connection, running, manager):
    empty = make_lane(running.seed)
    other = make_running_job(manager, policy=running.seed.policy)
    make_documents(make_lane(other.seed, served_at=NOON), 3)

    # The lane that was never served is first, and is empty. The other lane is served in the next pass.
    assert [stuff_all(connection, running).documents for _ in range(2)] == [0, 3]
    assert state_of(empty).ready_at is None


def test_a_closing_turn_wakes_lanes_that_wait_for_its_place_and_no_others(connection, running, manager):
    make_documents(make_lane(running.seed), 1)
    stuff_all(connection, running)
    now = timezone.now()
    waits = make_lane(make_running_job(manager).seed, ready_at=now + LOST_PLACE)
    ripens = make_lane(make_running_job(manager).seed, ready_at=now + seconds(60))

    close_turns(connection, turns=[ClosedTurn(Turn.objects.get().pk, Pace(0.0))], now=now)

    assert state_of(waits).ready_at < now + LOST_PLACE
    assert state_of(ripens).ready_at == now + seconds(60)


def test_a_document_of_two_jobs_is_active_in_one_job_at_a_time(connection, other_connection, manager, worker):
    policy = make_policy(open_requests=1000)
    first, second = make_running_job(manager, policy=policy), make_running_job(manager, policy=make_policy())
    for running in (first, second):
        make_documents(make_lane(running.seed), 10)

    with connection.transaction():
        stuff_all(connection, first)
        # The bin is locked, so the second job's stuffer finds nothing to offer now.
        assert stuff_all(other_connection, second).documents == 0
    LaneState.objects.update(ready_at=NOON)
    assert stuff_all(other_connection, second).documents == 0

    for claimed in take_all(connection, worker):
        flush_all(connection, worker, [make_result(claimed, first.facts)])
    close_open_turns(connection)
    LaneState.objects.update(ready_at=NOON)
    assert stuff_all(other_connection, second).documents == 10


def test_a_document_of_two_jobs_is_cleaned_up_by_one_job_at_a_time(
    connection, other_connection, manager, worker, tmp_path
):
    """
    Both jobs have finished without a link to the document. The second job cleans it up after the first, and removes it
    from the output.
    """
    output = make_output(tmp_path / "out.jsonl")
    jobs = [make_running_job(manager, policy=make_policy(), run_no=2, output=output) for _ in range(2)]
    for running in jobs:
        make_documents(make_lane(running.seed), ["page"], stage=Stage.DONE, run_no=1, indexed_before=True)
    IndexedDocument.objects.create(output=output, hash=hash_of("page"), version="1", indexed_at=NOON)
    Job.objects.update(phase=Phase.SHUTTING_DOWN)
    first, second = jobs

    with connection.transaction():
        assert clean_all(connection, first).documents == 1
        # The bin is locked, so the second job finds nothing to remove now.
        assert clean_all(other_connection, second).documents == 0
    LaneState.objects.update(ready_at=NOON)
    assert clean_all(other_connection, second).documents == 0
    removed = [drop_all(connection, worker, first)]
    # The lane did not fall asleep when its document was not available.
    assert clean_all(other_connection, second, now=NOON + seconds(1)).documents == 1
    removed.append(drop_all(connection, worker, second))

    assert [(done.dropped, done.removed) for done in removed] == [(1, 0), (1, 1)]
    assert not IndexedDocument.objects.exists()


def clean_all(connection, running, *, now=NOON):
    return stuff_removals(connection, manager=running.manager.id, group=running.group, room=1000, now=now)


def drop_all(connection, worker, running):
    taken = take(connection, worker=worker.id, room=1000, idle=True, now=NOON)
    claims = [claimed for claims in taken.removals.values() for claimed in claims]
    jobs = {running.job.pk: running.facts}
    return drop(connection, worker=worker.id, claims=claims, jobs=jobs, outputs=JobOutputs(), now=NOON)


def test_a_turn_at_a_worker_of_another_scope_gets_no_successor(connection, manager, worker):
    policy = make_policy(open_requests=2, min_gap=1.0)
    ours = make_running_job(manager, policy=policy)
    theirs = make_running_job(register_node(connection, "manager", scope="crawl:theirs"), policy=policy)
    make_documents(make_lane(ours.seed), [f"ours {n}" for n in range(30)])
    make_documents(make_lane(theirs.seed), [f"theirs {n}" for n in range(30)])
    stuff_all(connection, ours)
    assert len(take_all(connection, worker)) == 2

    assert stuff_all(connection, theirs).documents == 0

    assert stuff_all(connection, ours).documents == 2
    close_open_turns(connection)
    LaneState.objects.update(ready_at=NOON)
    assert stuff_all(connection, theirs).documents == 2
    their_worker = register_node(connection, "worker", scope="crawl:theirs")
    assert len(take_all(connection, their_worker)) == 2


def places_counted_and_summed():
    """Return (open turns, open requests) twice: as the bin counts them, and as the sum of its turns."""
    bin_, turns = BinState.objects.get(), Turn.objects.filter(closed_at=None)
    return (bin_.open_turns, bin_.open_requests), (len(turns), sum(turn.requests for turn in turns))


def test_a_turn_that_closes_while_it_gets_a_successor_passes_on_requests(
    connection, other_connection, rival, running, worker
):
    make_documents(make_lane(running.seed), DOCUMENTS_A_TURN + 30)
    stuff_all(connection, running)
    (first,) = take(connection, worker=worker.id, room=1000, idle=True, now=NOON).turns
    LaneState.objects.update(ready_at=NOON)

    with connection.transaction():
        assert stuff_all(connection, running).documents > 0
        rival.start_and_wait(close_turns, other_connection, turns=[ClosedTurn(first.id, None)], now=NOON)
    rival.result()

    assert places_counted_and_summed() == ((1, 1000), (1, 1000))
    (follower,) = take(connection, worker=worker.id, room=1000, idle=True, now=NOON).turns
    assert (follower.follows, follower.requests) == (first.id, 1000)


def test_a_successor_that_ends_with_its_predecessor_passes_on_all_requests(connection, running, worker):
    lane = make_lane(running.seed)
    make_documents(lane, 3 * DOCUMENTS_A_TURN)
    taken = []
    for _ in range(3):
        LaneState.objects.update(ready_at=NOON)
        stuff_all(connection, running)
        taken += take(connection, worker=worker.id, room=1000, idle=True, now=NOON).turns
    first, second, third = taken

    # Both turns end before either end is written. The third turn inherits what the second inherited from the first.
    closed = [ClosedTurn(turn.id, None, follows=turn.follows) for turn in (second, first)]
    close_turns(connection, turns=closed, now=NOON)

    assert third.follows == second.id
    assert places_counted_and_summed() == ((1, 1000), (1, 1000))


def test_concurrent_stuffers_never_exceed_a_budget(dsn, manager):
    running = make_running_job(manager, policy=make_policy(open_requests=1000), max_documents=50)
    for host in range(8):
        make_documents(make_lane(running.seed, f"h{host}.example"), [f"{host}/{n}" for n in range(20)])
    barrier = threading.Barrier(4)

    def stuff_often():
        with psycopg.connect(dsn, autocommit=True) as mine:
            barrier.wait()
            return sum(stuff_all(mine, running, room=7).documents for _ in range(10))

    with ThreadPoolExecutor(4) as pool:
        admitted = sum(future.result() for future in [pool.submit(stuff_often) for _ in range(4)])

    assert admitted == 50
    assert QueueItem.objects.filter(stage=Stage.ACTIVE).count() == 50
    running.job.budget.refresh_from_db()
    assert running.job.budget.admitted == 50


# --- Take ----------------------------------------------------------------------------------------


def test_two_workers_take_different_batches(dsn, connection, running, worker):
    for host in range(12):
        make_documents(make_lane(running.seed, f"h{host}.example"), [f"{host}/{n}" for n in range(40)])
    stuff_all(connection, running)
    workers = [worker, register_node(connection, "worker")]
    barrier = threading.Barrier(2)

    def take_until_nothing_is_left(mine):
        with psycopg.connect(dsn, autocommit=True) as own:
            barrier.wait()
            claims = []
            while found := take_all(own, mine, room=64):
                claims += found
            return [claimed.document.hash for claimed in claims]

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(take_until_nothing_is_left, workers)

    assert not set(first) & set(second)
    assert len(first) + len(second) == QueueItem.objects.filter(stage=Stage.ACTIVE).count() == 12 * 40
    assert not Batch.objects.filter(state="available").exists()


def test_a_locked_batch_is_not_taken_by_another_worker(connection, other_connection, running, worker):
    make_documents(make_lane(running.seed), 5)
    stuff_all(connection, running)
    rival = register_node(connection, "worker")

    with connection.transaction():
        assert len(take_all(connection, worker)) == 5
        assert take_all(other_connection, rival) == []

    assert take_all(other_connection, rival) == []


# --- Late outcomes -------------------------------------------------------------------------------


@pytest.fixture
def job_with_file(manager, tmp_path):
    """Return a job that writes to a file."""
    return make_running_job(manager, policy=make_policy(open_requests=1000), output=make_output(tmp_path / "out.jsonl"))


def test_an_outcome_after_its_release_changes_nothing(connection, job_with_file, worker, tmp_path):
    lane = make_lane(job_with_file.seed)
    make_documents(lane, ["late"])
    stuff_all(connection, job_with_file)
    (claimed,) = take_all(connection, worker)
    give_back(connection, worker=worker.id, claims=[claimed], now=NOON)
    before = _everything(connection)

    result = make_result(claimed, job_with_file.facts, names=["found"], lanes=[lane])
    flushed = flush_all(connection, worker, [result], outputs=JobOutputs())

    assert (flushed.written, flushed.refused) == (0, 1)
    assert _everything(connection) == before
    assert not (tmp_path / "out.jsonl").exists()
    assert not IndexedDocument.objects.exists()


def test_an_outcome_of_a_failed_worker_does_not_change_the_next_claim(connection, job_with_file, worker):
    main = register_node(connection, "manager")
    term = elect_main(connection, main)
    lane = make_lane(job_with_file.seed)
    make_documents(lane, ["late"])
    stuff_all(connection, job_with_file)
    (lost,) = take_all(connection, worker)
    leadership.mark_failed(connection, verdict=fall_silent(connection, worker), term=term)
    assert release_of_lost_workers(connection, scope="cluster", term=term, now=NOON) == 1
    stuff_all(connection, job_with_file)
    heir = register_node(connection, "worker")
    (claimed,) = take_all(connection, heir)
    before = _everything(connection)

    with pytest.raises(FenceRefused, match="node fence"):
        flush_all(connection, worker, [make_result(lost, job_with_file.facts, names=["found"], lanes=[lane])])
    # A live node is also refused, because the document now has another claim.
    assert (
        flush_all(connection, heir, [make_result(lost, job_with_file.facts, names=["found"], lanes=[lane])]).refused
        == 1
    )

    assert _everything(connection) == before
    assert (lost.batch_id != claimed.batch_id, claimed.document.version) == (True, "")
    assert flush_all(connection, heir, [make_result(claimed, job_with_file.facts)]).written == 1


def test_a_repeated_outcome_counts_once_and_names_its_filled_lanes_again(connection, running, worker):
    """A worker without an answer to its commit flushes again. Only after that does it wake the filled lanes."""
    make_documents(make_lane(running.seed), ["once"])
    found = make_lane(running.seed, "b.example", ready_at=None)
    stuff_all(connection, running)
    (claimed,) = take_all(connection, worker)
    new = make_reference("found", host="b.example")
    result = make_result(claimed, running.facts, names=[new], lanes=[found])

    flushes = [flush_all(connection, worker, [result]) for _ in range(2)]

    assert [(flushed.written, flushed.refused) for flushed in flushes] == [(1, 0), (0, 1)]
    assert [found.pk in flushed.lanes for flushed in flushes] == [True, True]


def _everything(connection):
    """Return all rows that an outcome could change."""
    tables = (
        "jobs_queueitem",
        "jobs_outlinks",
        "jobs_counterdelta",
        "jobs_indexeddocument",
        "jobs_binstate",
        "jobs_budget",
    )
    return {
        table: sorted(map(str, connection.execute(f"SELECT to_jsonb(t) FROM {table} AS t").fetchall()))
        for table in tables
    }


# --- Concurrent flushes --------------------------------------------------------------------------


def test_two_flushes_with_links_to_the_same_new_documents_create_each_once(
    connection, other_connection, rival, running, worker
):
    lane = make_lane(running.seed)
    make_documents(lane, ["one", "two"])
    stuff_all(connection, running)
    first, second = take_all(connection, worker)
    named = [f"new {n}" for n in range(30)]

    with connection.transaction():
        flush_all(connection, worker, [make_result(first, running.facts, names=named, lanes=[lane])])
        rival.start_and_wait(
            flush_all,
            other_connection,
            worker,
            [make_result(second, running.facts, names=reversed(named), lanes=[lane])],
        )
    assert rival.result().written == 1

    assert QueueItem.objects.filter(stage=Stage.PENDING).count() == 30
    counted = CounterDelta.objects.filter(measure="stage", stage=Stage.PENDING, amount__gt=0)
    assert sum(counted.values_list("amount", flat=True)) == 30


def test_the_smaller_of_two_depths_counts_in_any_order(connection, other_connection, rival, manager, worker):
    running = make_running_job(
        manager, policy=make_policy(), specification={"max_depth": 5, "allow_private_networks": True}
    )
    lane = make_lane(running.seed)
    make_documents(lane, ["far"], depth=3)
    make_documents(lane, ["near"], depth=1)
    stuff_all(connection, running)
    claims = {claimed.document.depth: claimed for claimed in take_all(connection, worker)}
    depth = {"job_facts": {"tracks_depth": True, "max_depth": 5}}

    with connection.transaction():
        flush_all(connection, worker, [_naming(claims[3], running, lane, **depth)])
        rival.start_and_wait(flush_all, other_connection, worker, [_naming(claims[1], running, lane, **depth)])
    rival.result()

    assert QueueItem.objects.get(hash=hash_of("target")).depth == 2


def _naming(claimed, running, lane, *, job_facts):
    result = make_result(claimed, running.facts, names=["target"], lanes=[lane])
    return replace(result, job=facts_of(running.job, **job_facts))


def test_a_loop_of_redirects_is_found_when_its_documents_flush_together(connection, running, worker):
    lane = make_lane(running.seed)
    make_documents(lane, ["a", "b", "c"])
    stuff_all(connection, running)
    claims = {claimed.document.identifier[-1]: claimed for claimed in take_all(connection, worker)}

    flush_all(
        connection,
        worker,
        [_redirect(claims[a], running, lane, to=b) for a, b in (("a", "b"), ("b", "c"), ("c", "a"))],
    )

    assert _codes() == {"a": "REDIRECT", "b": "REDIRECT", "c": "REDIRECT_LOOP"}


def test_a_loop_of_redirects_is_found_when_two_flushes_wait_for_each_other(
    connection, other_connection, rival, running, worker
):
    lane = make_lane(running.seed)
    make_documents(lane, ["a", "b"])
    stuff_all(connection, running)
    claims = {claimed.document.identifier[-1]: claimed for claimed in take_all(connection, worker)}

    with connection.transaction():
        flush_all(connection, worker, [_redirect(claims["a"], running, lane, to="b")])
        rival.start_and_wait(flush_all, other_connection, worker, [_redirect(claims["b"], running, lane, to="a")])
    rival.result()

    assert _codes() == {"a": "REDIRECT", "b": "REDIRECT_LOOP"}


def test_a_loop_of_three_is_found_although_one_redirect_was_flushed_before(connection, running, worker):
    lane = make_lane(running.seed)
    make_documents(lane, ["a", "b", "c"])
    stuff_all(connection, running)
    claims = {claimed.document.identifier[-1]: claimed for claimed in take_all(connection, worker)}

    flush_all(connection, worker, [_redirect(claims["c"], running, lane, to="a")])
    flush_all(connection, worker, [_redirect(claims[a], running, lane, to=b) for a, b in (("a", "b"), ("b", "c"))])

    assert _codes() == {"a": "REDIRECT", "b": "REDIRECT_LOOP", "c": "REDIRECT"}


def test_a_document_that_redirects_to_itself_is_a_loop(connection, running, worker):
    lane = make_lane(running.seed)
    make_documents(lane, ["a"])
    stuff_all(connection, running)
    (claimed,) = take_all(connection, worker)

    flush_all(connection, worker, [_redirect(claimed, running, lane, to="a")])

    assert _codes() == {"a": "REDIRECT_LOOP"}


def _redirect(claimed, running, lane, *, to):
    return make_result(claimed, running.facts, names=[to], lanes=[lane], ending=Ending.EXCLUDED, code="REDIRECT")


def _codes():
    return {identifier[-1]: code for identifier, code in QueueItem.objects.values_list("identifier", "result_code")}


def test_many_flushes_of_overlapping_documents_lose_nothing(dsn, connection, running, worker):
    """Each of two threads makes 150 flushes of documents that link to each other, without a common order."""
    hosts = [make_lane(running.seed, f"h{host}.example") for host in range(4)]
    names = [f"page {n}" for n in range(600)]
    new = [make_reference(f"new {n}", host=f"h{n % 4}.example") for n in range(400)]
    for index, lane in enumerate(hosts):
        make_documents(lane, names[index::4])
    Bin.objects.update(is_known=True)
    claims = []
    while stuff_all(connection, running, room=10_000).documents:
        claims += take_all(connection, worker, room=10_000)
        close_open_turns(connection)
        LaneState.objects.update(ready_at=NOON)
    assert len(claims) == 600
    facts = running.facts

    def flush_in_random_order(seed):
        draw = random.Random(seed)
        mine = claims[seed::2]
        draw.shuffle(mine)
        written = 0
        with psycopg.connect(dsn, autocommit=True) as own:
            for start in range(0, len(mine), 2):
                results = [
                    make_result(
                        claimed,
                        facts,
                        lanes=hosts,
                        names=[*draw.sample(names, 20), *draw.sample(new, 10)],
                    )
                    for claimed in mine[start : start + 2]
                ]
                written += flush_all(own, worker, results).written
        return written

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(flush_in_random_order, range(2))) == 600

    ended = QueueItem.objects.filter(stage=Stage.DONE)
    assert ended.count() == OutLinks.objects.count() == 600
    targets = {target for links in OutLinks.objects.values_list("targets", flat=True) for target in links}
    assert targets <= set(QueueItem.objects.values_list("hash", flat=True))


# --- The end of a run ----------------------------------------------------------------------------


def test_a_run_does_not_end_while_its_last_documents_are_claimed(connection, running):
    main = register_node(connection, "manager")
    at = Pass(
        connection=connection, me=main.id, scope=main.scope, now=NOON, term=elect_main(connection, main), groups=()
    )
    make_documents(make_lane(running.seed), 1)
    with named_rows(connection) as cursor:
        (seen,) = cursor.execute(JOBS_WITHOUT_CLAIMS, {"scope": main.scope}).fetchall()

    assert stuff_all(connection, running).documents == 1

    assert not _move(at, seen)
    assert Job.objects.get().phase == Phase.ACTIVE
