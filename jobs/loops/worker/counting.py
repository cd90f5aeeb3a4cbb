"""Metrics of a worker's writes: counted once for each flush, not for each document."""

from collections.abc import Sequence

from jobs.connectors.repository.base import Ending
from jobs.lifecycle.activity import ActivityName
from jobs.metrics import crawl
from jobs.queue.flushing.flush import Flushed
from jobs.queue.pace.close import ClosedTurn
from jobs.queue.removing.drop import Dropped
from nodes.metrics import node_metrics


def count_flush(flushed: Flushed, *, seconds: float) -> None:
    """Count the outcomes that one flush wrote, except for outcomes whose claim was lost."""
    crawl.FLUSHES.observe(seconds)
    crawl.OFFERED_REFERENCES.add(len(flushed.named))
    node_metrics.REFUSED_WRITES.add(flushed.refused, "claim")
    # A list with the number of an ending as index. A dictionary would be slower, because the hash of a member of an
    # enumeration is computed in Python.
    endings = [0] * (max(Ending) + 1)
    fetches: list[float] = []
    bytes_read = added = back_offs = 0
    for result in flushed.counted:
        outcome = result.outcome
        endings[outcome.ending] += 1
        added += len(result.job.outputs) if outcome.ending == Ending.INDEXED else 0
        back_offs += outcome.back_off is not None
        for record in outcome.records:
            if record.activity == ActivityName.FETCH:
                fetches.append(record.seconds)
                bytes_read += record.bytes
    for ending in Ending:
        if endings[ending]:
            crawl.DOCUMENTS.add(endings[ending], ending.name.lower())
    crawl.FETCHES.observe_all(fetches)
    crawl.FETCHED_BYTES.add(bytes_read)
    crawl.BACK_OFFS.add(back_offs)
    crawl.OUTPUTS.add(added, "added")
    crawl.OUTPUTS.add(flushed.departed, "removed")


def count_closed(turns: Sequence[ClosedTurn], *, batches: int) -> None:
    """Count closed turns, their requests to hosts, and ended batches."""
    crawl.CLOSED_TURNS.add(len(turns))
    crawl.STARTS.add(sum(turn.use.starts for turn in turns))
    crawl.ENDED_BATCHES.add(batches)


def count_given_back(returned: int, *, refused: int) -> None:
    """Count documents that returned to the queue, and documents whose claim was lost."""
    crawl.GIVEN_BACK.add(returned)
    node_metrics.REFUSED_WRITES.add(refused, "claim")


def count_dropped(dropped: Dropped) -> None:
    """Count documents that left the queue, and the outputs."""
    crawl.REMOVED.add(dropped.dropped)
    crawl.OUTPUTS.add(dropped.removed, "removed")
    node_metrics.REFUSED_WRITES.add(dropped.refused, "claim")
