"""
A cache of references that a worker wrote lately: they need not be sent to the database again. 97 of 100 links of a site
are repeats.

The cache is bounded and belongs to the process. References are added only after the commit, so they are durable. Only
the database's thread uses it.

The cache stores whole hashes, so two references never collide. The hashes are packed, because a set of strings would
need eight times the memory. The most frequent hashes are also in a dictionary. When the young half of the cache is
full, it replaces the old half. Only references that are used again survive this, so frequent link targets stay for the
whole run.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from jobs.queue.flushing.outcomes import JobFacts

# Largest number of references in each half of the cache: both halves need some ten MiB.
_OF_A_HALF: Final = 250_000
_AT_HAND: Final = 50_000

# Number of first digits by which hashes are put into groups, in which they are searched. A group of a full half has
# some sixty hashes.
_SHARED_DIGITS: Final = 3
# Sizes in a record (bytes), which has the rest of the hash, the number of its run, and the depth.
_RUN_BYTES: Final = 3
_DEPTH_BYTES: Final = 2
_DEEPEST: Final = (1 << 8 * _DEPTH_BYTES) - 1

_Run = tuple[int, int]


class KnownReferences:
    """
    The references that a worker has written: hashes by job and run, each with the smallest depth that was written.
    """

    def __init__(self, *, of_a_half: int = _OF_A_HALF, at_hand: int = _AT_HAND) -> None:
        self._of_a_half, self._most_at_hand = of_a_half, at_hand
        self._young, self._old = _Half(), _Half()
        self._at_hand: dict[_Run, dict[str, int]] = {}
        self._size_at_hand = 0

    def holds(self, job: JobFacts, hash_: str, depth: int) -> bool:
        """
        True if the reference was written in this run. If depth matters, it must have been written with the same or a
        smaller depth.
        """
        # In a job with hop limits, the effect of a reference depends on its source, so no reference is a repeat.
        if job.hops is not None or job.loses_documents:
            return False
        run = (job.id, job.run_no)
        at_hand = self._at_hand.get(run)
        written = at_hand.get(hash_) if at_hand is not None else None
        if written is None:
            written = self._recall(run, hash_)
        return written is not None and (not job.tracks_depth or written <= depth)

    def unknown(self, job: JobFacts, hashes: Sequence[str], depth: int) -> Sequence[str]:
        """
        Return the hashes for which `holds` is false. Most hashes are in the dictionary, and need no call of `holds`.
        """
        if job.hops is None and not job.loses_documents and not job.tracks_depth:
            at_hand = self._at_hand.get((job.id, job.run_no))
            if at_hand:
                hashes = [hash_ for hash_ in hashes if hash_ not in at_hand]
        return [hash_ for hash_ in hashes if not self.holds(job, hash_, depth)]

    def add(self, named: Iterable[tuple[JobFacts, str, int]]) -> None:
        """Add the references of a committed flush: (job, hash, depth)."""
        for job, hash_, depth in named:
            self._note((job.id, job.run_no), hash_, depth)

    def _recall(self, run: _Run, hash_: str) -> int | None:
        written = self._young.find(run, hash_)
        if written is None:
            written = self._old.find(run, hash_)
            if written is None:
                return None
            self._put(run, hash_, written)
        self._keep_at_hand(run, hash_, written)
        return written

    def _note(self, run: _Run, hash_: str, depth: int) -> None:
        depth = min(depth, _DEEPEST)
        self._put(run, hash_, depth)
        # A page has just named this reference, so the next pages probably name it, too.
        self._keep_at_hand(run, hash_, depth)

    def _put(self, run: _Run, hash_: str, depth: int) -> None:
        # Another depth of a hash that is in the young half takes no additional memory.
        if self._young.size >= self._of_a_half and self._young.find(run, hash_) is None:
            self._young, self._old = _Half(), self._young
            # Without the dictionary, the next look-up of a reference finds it in the old half, and copies it to the
            # young one.
            self._clear_at_hand()
        self._young.put(run, hash_, depth)

    def _keep_at_hand(self, run: _Run, hash_: str, depth: int) -> None:
        if self._size_at_hand >= self._most_at_hand:
            self._clear_at_hand()
        at_hand = self._at_hand.setdefault(run, {})
        at_hand[hash_] = min(depth, at_hand.get(hash_, depth))
        self._size_at_hand += 1

    def _clear_at_hand(self) -> None:
        self._at_hand.clear()
        self._size_at_hand = 0


class _Half:
    """One half of the cache: hashes and their depths, packed."""

    def __init__(self) -> None:
        self.size = 0
        self._buckets = [b""] * 16**_SHARED_DIGITS
        self._runs: dict[_Run, bytes] = {}

    def find(self, run: _Run, hash_: str) -> int | None:
        """Return the depth of a hash; None if the cache does not have the hash."""
        number = self._runs.get(run)
        if number is None:
            return None
        key = _rest_of(hash_) + number
        bucket = self._buckets[int(hash_[:_SHARED_DIGITS], 16)]
        at = _place_of(key, bucket)
        if at < 0:
            return None
        return int.from_bytes(bucket[at + len(key) : at + len(key) + _DEPTH_BYTES])

    def put(self, run: _Run, hash_: str, depth: int) -> None:
        """Store a hash with this depth. If the hash has a smaller depth already, that depth stays."""
        number = self._runs.get(run)
        if number is None:
            number = self._runs[run] = len(self._runs).to_bytes(_RUN_BYTES)
        key = _rest_of(hash_) + number
        place = int(hash_[:_SHARED_DIGITS], 16)
        bucket = self._buckets[place]
        at = _place_of(key, bucket)
        if at < 0:
            self._buckets[place] = bucket + key + depth.to_bytes(_DEPTH_BYTES)
            self.size += 1
        else:
            end = at + len(key)
            nearest = min(bucket[end : end + _DEPTH_BYTES], depth.to_bytes(_DEPTH_BYTES))
            self._buckets[place] = bucket[:end] + nearest + bucket[end + _DEPTH_BYTES :]


def _rest_of(hash_: str) -> bytes:
    # Only whole bytes, of two digits each, can be stored. So the last digit of an odd number is stored, too.
    return bytes.fromhex(hash_[_SHARED_DIGITS - _SHARED_DIGITS % 2 :])


def _place_of(key: bytes, bucket: bytes) -> int:
    """Return the place of the record with this key; -1 if no record has it."""
    at = bucket.find(key)
    while at > 0 and at % (len(key) + _DEPTH_BYTES):
        # The key was found across the border of two records, by chance. The search continues.
        at = bucket.find(key, at + 1)
    return at
