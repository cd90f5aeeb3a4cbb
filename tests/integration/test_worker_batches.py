"""Proves that a worker compares its batches with those in the database, even while it writes outcomes."""

import asyncio
import json

import pytest

from jobs.connectors.repository.base import Ending
from jobs.lifecycle.document import Stage
from jobs.loops.worker import Worker
from jobs.loops.worker.outputs import JobOutputs
from jobs.loops.worker.writing import Ended
from jobs.models import Batch, BinState, IndexedDocument, Job, LaneState, QueueItem
from jobs.queue.flushing.flush import flush
from jobs.queue.offering.stuff import stuff
from jobs.queue.offering.stuff_removals import stuff_removals
from jobs.queue.take import take
from nodes.settings.running import current
from tests.support.cluster import NOON, register_node
from tests.support.factories import (
    facts_of,
    make_documents,
    make_lane,
    make_outcome,
    make_output,
    make_policy,
    make_result,
    make_running_job,
)


@pytest.fixture
def taken(connection, worker):
    """Let the worker take a turn of a bin that allows one open request. Return what it took."""
    running = make_running_job(register_node(connection, "manager"), policy=make_policy(open_requests=1))
    make_documents(make_lane(running.seed), 3)
    stuff(connection, manager=running.manager.id, group=running.group, room=100, workers=1, now=NOON)
    return take(connection, worker=worker.id, room=100, idle=True, now=NOON)


def test_a_batch_that_ends_during_a_query_is_not_treated_as_unknown(dsn, worker, taken):
    async def compare_while_it_ends():
        mine = Worker(dsn=dsn, identity=worker, settings=current(), stop=asyncio.Event())
        for turn in taken.turns:
            for claimed in turn.documents:
                mine._state.batches.add(claimed.batch_id)
                mine._state.settle(claimed)
        # The database first answers the query of the comparison, and then the write.
        await asyncio.gather(mine._upkeep.compare_batches(), mine._flushing.write_everything())
        mine._database.close()

    asyncio.run(compare_while_it_ends())

    assert Batch.objects.get().state == "done"
    assert (BinState.objects.get().open_turns, BinState.objects.get().open_requests) == (1, 1)


def take_removals(connection, running, worker):
    LaneState.objects.update(ready_at=NOON)
    stuff_removals(connection, manager=running.manager.id, group=running.group, room=100, now=NOON)
    return take(connection, worker=worker.id, room=100, idle=True, now=NOON).removals["clean"]


def test_removals_of_a_job_that_the_worker_no_longer_knows_are_offered_again(connection, dsn, worker):
    """Between a take and the removals of its documents, a worker may forget the facts of their job."""
    running = make_running_job(register_node(connection, "manager"), run_no=2)
    make_documents(make_lane(running.seed), 3, stage=Stage.DONE, run_no=1)
    Job.objects.update(phase="shutting_down")
    claims = take_removals(connection, running, worker)

    async def remove():
        mine = Worker(dsn=dsn, identity=worker, settings=current(), stop=asyncio.Event())
        for claimed in claims:
            mine._state.batches.add(claimed.batch_id)
        await mine._flushing.remove(claims)
        await mine._flushing.write_everything()
        left = mine._state.batches.documents
        mine._database.close()
        return left

    assert asyncio.run(remove()) == 0
    assert not QueueItem.objects.exclude(batch=None).exists()
    assert len(take_removals(connection, running, worker)) == 3


def actions(path):
    return [json.loads(line)["action"] for line in path.read_text().splitlines()]


def test_a_vanished_page_is_removed_from_the_only_file_that_has_it(connection, dsn, worker, tmp_path):
    refusing = tmp_path / "missing" / "out.jsonl"
    running = make_running_job(register_node(connection, "manager"), output=make_output(tmp_path / "out.jsonl"))
    running.job.outputs.add(make_output(refusing))
    make_documents(make_lane(running.seed), ["page"])

    def take_page():
        LaneState.objects.update(ready_at=NOON)
        stuff(connection, manager=running.manager.id, group=running.group, room=100, workers=1, now=NOON)
        return take(connection, worker=worker.id, room=100, idle=True, now=NOON)

    async def write_page(taken):
        mine = Worker(dsn=dsn, identity=worker, settings=current(), stop=asyncio.Event())
        await mine._taking._prepare(taken)
        [claimed] = taken.turns[0].documents
        mine._state.batches.add(claimed.batch_id)
        ended = Ended(claimed, mine._state.jobs.find(claimed), make_outcome(claimed))
        mine._state.results.add(ended, is_last=True, within=0.0)
        await mine._flushing.write_everything()
        await mine._state.jobs.close()
        mine._database.close()

    asyncio.run(write_page(take_page()))
    assert set(actions(tmp_path / "out.jsonl")) == {"add"}
    assert Job.objects.get().pause == "pausing"

    refusing.parent.mkdir()
    Job.objects.update(pause="no")
    [claimed] = take_page().turns[0].documents
    gone = make_result(claimed, facts_of(running.job), ending=Ending.FAILED, code="404", removes=True)
    flush(connection, worker=worker.id, results=[gone], outputs=JobOutputs(), now=NOON)

    assert actions(tmp_path / "out.jsonl")[-1] == "delete"


def test_a_page_removed_from_only_one_of_two_files_is_written_again(connection, dsn, worker, tmp_path):
    first = tmp_path / "out.jsonl"
    running = make_running_job(register_node(connection, "manager"), output=make_output(first), run_no=2)
    running.job.outputs.add(make_output(tmp_path / "missing" / "out.jsonl"))
    facts = {"stage": Stage.DONE, "run_no": 1, "version": "1:text", "validators": "etag", "indexed_before": True}
    [page] = make_documents(make_lane(running.seed), ["page"], **facts)
    for output in running.job.outputs.all():
        IndexedDocument.objects.create(output=output, hash=page.hash, version="1:text", indexed_at=NOON)
    Job.objects.update(phase="shutting_down")
    claims = take_removals(connection, running, worker)

    async def remove():
        mine = Worker(dsn=dsn, identity=worker, settings=current(), stop=asyncio.Event())
        await mine._state.read_job(running.job.pk)
        await mine._flushing.remove(claims)
        await mine._state.jobs.close()
        mine._database.close()

    asyncio.run(remove())

    assert actions(first) == ["delete"]
    item = QueueItem.objects.get()
    assert (item.stage, item.version, item.validators) == (Stage.DONE, "", "")


def test_a_worker_continues_when_its_job_no_longer_uses_the_full_disk(connection, dsn, worker, tmp_path, monkeypatch):
    running = make_running_job(register_node(connection, "manager"))
    monkeypatch.setattr("jobs.loops.disk._free_at", lambda place: 0 if place.name == "full" else None)

    async def notice():
        mine = Worker(dsn=dsn, identity=worker, settings=current(), stop=asyncio.Event())
        await mine._state.read_job(running.job.pk)
        mine._disk.writes_to([tmp_path / "full" / "out.jsonl"])
        before = mine._check_disks()
        mine._upkeep.moved_jobs.add(running.job.pk)
        await mine._upkeep._read_moved_jobs()
        after = mine._check_disks()
        await mine._state.jobs.close()
        mine._database.close()
        return before, after

    before, after = asyncio.run(notice())

    assert "full" in before
    assert after == ""
