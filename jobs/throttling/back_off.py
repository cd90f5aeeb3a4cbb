"""
The back-off of a host that answers 429 or 503, and its recovery. No I/O.

Each 429 or 503 after the end of the last back-off raises the level by one. The host's own `Retry-After` takes
precedence. Without one, the time doubles with each level. After the back-off the bin is served one document at a time.
Each other answer to such a document lowers the level by one, and at level 0 the bin has its pace again.
"""

from typing import Final

# Back-off by level, from the first on (seconds). The last value applies to all higher levels.
CURVE: Final = [2.0**level for level in range(9)]
