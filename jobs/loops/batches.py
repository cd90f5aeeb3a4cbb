"""
The batches that a worker has, from their take until the database knows that they are done.

The worker holds them against those that the database says are out at it: one that is out and not here was taken by
a statement whose answer was lost, and nothing of it has begun, so it goes back. Requests may still be open of one
that is done, since its turn inherited them; so one that is being written counts as here until that has been answered.
"""

from collections.abc import Collection


class BatchesInHand:
    """How many documents this worker still has of each batch."""

    def __init__(self) -> None:
        self._left: dict[int, int] = {}
        self._done: set[int] = set()

    @property
    def documents(self) -> int:
        """Documents of all batches that are claimed here."""
        return sum(self._left.values())

    @property
    def all(self) -> frozenset[int]:
        """All that the database may have out at this worker, and the worker knows of."""
        return frozenset(self._left) | self._done

    @property
    def done(self) -> list[int]:
        """Those of which no document is left, and that the database has to be told of."""
        return sorted(self._done)

    def add(self, batch: int) -> None:
        """One document of a batch has been taken."""
        self._left[batch] = self._left.get(batch, 0) + 1

    def settle(self, batch: int) -> bool:
        """A document of a batch is no longer this worker's; returns whether it was the last one."""
        if batch not in self._left:
            return False
        self._left[batch] -= 1
        if self._left[batch]:
            return False
        del self._left[batch]
        self._done.add(batch)
        return True

    def told(self, done: Collection[int]) -> None:
        """The database knows that these are done."""
        self._done.difference_update(done)
