"""
The document limit of a job of several partitions: each partition has a share of the places of this limit. Pure
functions, without a database.

The sum of all shares never exceeds the limit. A share counts as soon as it is sent. If a share is lowered, its places
become free only when the partition confirms the new share, because the partition may use some of them until then.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """
    The share of one partition, in places: `sent` was sent to it last, and it confirmed `most` last.

    `free` of its places are certainly unused. A partition that `lacks` places has used all of its places, and has more
    documents. It `rests` if it has used all of its places, and no document can continue without another place.
    """

    sent: int
    most: int
    free: int = 0
    lacks: bool = False
    rests: bool = False
    is_confirmed: bool = True

    @property
    def held(self) -> int:
        """Return the number of places that may be in use: the larger of the sent share and the confirmed share."""
        return max(self.sent, self.most)


def first_shares(limit: int, names: Sequence[str]) -> dict[str, int]:
    """Return equal shares of the places. The first partition also gets the places that cannot be divided equally."""
    each = limit // len(names)
    return {name: each + (limit - each * len(names) if name == names[0] else 0) for name in names}


def redistribute(limit: int, shares: Mapping[str, Share]) -> dict[str, int]:
    """
    Return the shares to change: free places go to the partitions that lack some, in equal parts.

    Without free places, each other partition gives half of its unused places.
    """
    lacking = sorted(name for name, share in shares.items() if share.lacks and share.is_confirmed)
    if not lacking:
        return {}
    left = limit - sum(share.held for share in shares.values())
    if left > 0:
        each, rest = divmod(left, len(lacking))
        more = {name: each + (place < rest) for place, name in enumerate(lacking)}
        return {name: shares[name].most + amount for name, amount in more.items() if amount}
    return {
        name: share.most - (share.free + 1) // 2
        for name, share in shares.items()
        if share.free and share.is_confirmed and not share.lacks
    }


def is_limit_reached(limit: int, shares: Mapping[str, Share]) -> bool:
    """
    True if the places of all partitions are used, no document can continue without another place, and a partition lacks
    places.
    """
    return (
        all(share.rests and share.is_confirmed for share in shares.values())
        and any(share.lacks for share in shares.values())
        and sum(share.most for share in shares.values()) >= limit
    )


def round_down(amount: int) -> int:
    """Return the next lower power of two, so that a number that falls steadily is sent only a few times."""
    return 1 << amount.bit_length() - 1 if amount > 0 else 0
