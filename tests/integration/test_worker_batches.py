"""A worker compares its batches with those in the database, while it writes outcomes."""

import asyncio

import pytest

from jobs.loops.worker import Worker
from jobs.models import Batch, BinState
from jobs.queue.offering.stuff import stuff
from jobs.queue.take import take
from nodes.settings.running import current
from tests.support.cluster import NOON, register_node
from tests.support.factories import make_documents, make_lane, make_policy, make_running_job


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
        # The database answers the comparison first, then the write.
        await asyncio.gather(mine._upkeep.compare_batches(), mine._flushing.write_everything())
        mine._database.close()

    asyncio.run(compare_while_it_ends())

    assert Batch.objects.get().state == "done"
    assert (BinState.objects.get().open_turns, BinState.objects.get().open_requests) == (1, 1)
