"""
How long a bin is left alone whose host says that it is asked too much of, and how it comes back. No I/O.

Each 429 or 503 that comes when the time of the last one is over is one level up. What the host names
(`Retry-After`) holds; where it names nothing, the time doubles with each level. After it the bin is served one
document at a time: each answer that is none of these is one level down, and at level 0 it has its pace again.
"""

from typing import Final

# Seconds by level, from the first on; the last one holds for all that follow.
CURVE: Final = [2.0**level for level in range(9)]
