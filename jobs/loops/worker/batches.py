"""
The batches of a worker, from their take until the database has stored their end.

The worker compares its batches with the batches that the database has as sent to it. If the worker lacks a sent batch,
the statement that took the batch ran, but its answer was lost. None of its documents has begun, so the batch is
returned. A batch without documents may still have open requests, which its turn inherited. So the worker keeps a batch
until the database has confirmed its end.
"""

from collections.abc import Collection


class ClaimedBatches:
    """The number of documents that this worker still has of each batch."""

    def __init__(self) -> None:
        self._left: dict[int, int] = {}
        self._done: set[int] = set()

    @property
    def documents(self) -> int:
        """Return the number of claimed documents of all batches."""
        return sum(self._left.values())

    @property
    def all(self) -> frozenset[int]:
        """Return all batches of this worker that the database may still have as sent."""
        return frozenset(self._left) | self._done

    @property
    def done(self) -> list[int]:
        """Return the batches without documents whose end is not stored yet."""
        return sorted(self._done)

    def add(self, batch: int) -> None:
        """Record that one document of a batch was taken."""
        self._left[batch] = self._left.get(batch, 0) + 1

    def settle(self, batch: int) -> bool:
        """Record that this worker no longer has a document of a batch; return True if it was the last one."""
        if batch not in self._left:
            return False
        self._left[batch] -= 1
        if self._left[batch]:
            return False
        del self._left[batch]
        self._done.add(batch)
        return True

    def note_done(self, done: Collection[int]) -> None:
        """Record that the database has stored the end of these batches."""
        self._done.difference_update(done)
