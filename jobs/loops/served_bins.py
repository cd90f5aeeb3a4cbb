"""
The bins that a worker serves, and those that it served lately, whose paces it still knows.

Of hosts with a document each there are thousands of the second kind, so what a worker does time and again for all of
its bins it does for those at work only: a walk over all is a moment in which no request of anybody leaves.
"""

from jobs.loops.bin_queue import BinQueue, PacedBin


class ServedBins:
    """Bins by their number: a bin is at work from `serve` until it has nothing to do any more, and rests until it is forgotten."""

    def __init__(self) -> None:
        self._at_work: dict[int, BinQueue] = {}
        self._resting: dict[int, BinQueue] = {}

    def __len__(self) -> int:
        return len(self._at_work) + len(self._resting)

    @property
    def at_work(self) -> list[BinQueue]:
        """Those with turns or open requests, as of now: what is done with one may let it rest."""
        return list(self._at_work.values())

    @property
    def waiting(self) -> int:
        """How many documents wait in all of them."""
        return sum(len(queue.waiting) for queue in self._at_work.values())

    @property
    def open_documents(self) -> dict[str, int]:
        """Documents that are begun and have not ended, by the bin's number, of bins that have some."""
        return {str(bin_id): queue.in_flight for bin_id, queue in self._at_work.items() if queue.in_flight}

    def find(self, bin_id: int) -> BinQueue | None:
        """The bin if it is at work."""
        return self._at_work.get(bin_id)

    def serve(self, bin_id: int) -> BinQueue:
        """The bin, which is about to get a turn."""
        queue = self.find(bin_id)
        if queue is None:
            queue = self._resting.pop(bin_id) if bin_id in self._resting else BinQueue(PacedBin(bin_id))
            self._at_work[bin_id] = queue
        return queue

    def let_rest(self, queue: BinQueue) -> None:
        """Count it among those that were served lately, if it has nothing to do."""
        if queue.is_idle and self.find(queue.bin_id) is queue:
            self._resting[queue.bin_id] = self._at_work.pop(queue.bin_id)

    def forget(self, *, before: float) -> None:
        """Drop those that rest and whose last request began before that moment of the loop's clock."""
        self._resting = {
            bin_id: queue for bin_id, queue in self._resting.items() if (queue.last_start or 0.0) >= before
        }
