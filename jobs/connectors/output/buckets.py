"""
Buckets of documents. The first 12 bits of the hash are the number of the bucket, so there are 4,096 buckets, and each
is a range of hashes.

A random choice of buckets is a random choice of documents, and an index reads each bucket without the others.
"""

import random
from collections.abc import Collection
from typing import Final

BUCKETS: Final = 4096
# Number of hex digits of a hash that name its bucket.
_DIGITS: Final = 3
_LENGTH: Final = 32


def bucket_of(hash_: str) -> int:
    """Return the bucket of a hash of 32 hex digits."""
    return int(hash_[:_DIGITS], 16)


def ranges_of(buckets: Collection[int]) -> list[tuple[str, str]]:
    """Return the first and the last hash of each range of adjacent buckets, in order."""
    ranges: list[tuple[int, int]] = []
    for bucket in sorted(set(buckets)):
        if ranges and ranges[-1][1] == bucket - 1:
            ranges[-1] = (ranges[-1][0], bucket)
        else:
            ranges.append((bucket, bucket))
    rest = _LENGTH - _DIGITS
    return [(f"{first:03x}{'0' * rest}", f"{last:03x}{'f' * rest}") for first, last in ranges]


def choose(percent: float) -> list[int]:
    """Return a random choice of this share of all buckets, at least one, in order."""
    return sorted(random.sample(range(BUCKETS), max(1, round(BUCKETS * percent / 100))))
