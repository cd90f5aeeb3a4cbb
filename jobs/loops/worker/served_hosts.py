"""
The bins that a worker serves, and recently served bins, whose paces it still knows.

A crawl of many hosts with one document each has thousands of recently served bins. A loop over all of them would delay
requests, so regular work covers active bins only.
"""

from jobs.loops.worker.host_queue import BinQueue, PacedBin


class ServedBins:
    """Bins by their id: active from `serve` until they have no more work, then kept until they are forgotten."""

    def __init__(self) -> None:
        self._at_work: dict[int, BinQueue] = {}
        self._recently_served: dict[int, BinQueue] = {}

    def __len__(self) -> int:
        return len(self._at_work) + len(self._recently_served)

    @property
    def at_work(self) -> list[BinQueue]:
        """
        Return a copy of the list of bins with turns or open requests, because the list may change during a loop over
        it.
        """
        return list(self._at_work.values())

    def has_waiting(self, least: int) -> bool:
        """
        True if at least this number of documents wait in all bins together.

        The method is called for each result, so it stops counting at this number.
        """
        waiting = 0
        for queue in self._at_work.values():
            waiting += len(queue.waiting)
            if waiting >= least:
                return True
        return False

    @property
    def open_documents(self) -> dict[str, int]:
        """Return the number of documents in flight of each bin that has any, by the id of the bin."""
        return {str(bin_id): queue.in_flight for bin_id, queue in self._at_work.items() if queue.in_flight}

    def find(self, bin_id: int) -> BinQueue | None:
        """Return the bin if it is active."""
        return self._at_work.get(bin_id)

    def serve(self, bin_id: int) -> BinQueue:
        """Return the bin, and make it active for a coming turn."""
        queue = self.find(bin_id)
        if queue is None:
            queue = self._recently_served.pop(bin_id) if bin_id in self._recently_served else BinQueue(PacedBin(bin_id))
            self._at_work[bin_id] = queue
        return queue

    def retire_if_idle(self, queue: BinQueue) -> None:
        """Move the bin to the recently served bins if it has no work."""
        if queue.is_idle and self.find(queue.bin_id) is queue:
            self._recently_served[queue.bin_id] = self._at_work.pop(queue.bin_id)

    def forget(self, *, before: float) -> None:
        """Drop recently served bins whose last request began before a moment of the loop's clock."""
        self._recently_served = {
            bin_id: queue for bin_id, queue in self._recently_served.items() if (queue.last_start or 0.0) >= before
        }
