"""
The totals of a policy over all partitions: each has a share of them. Pure functions, without a database.

A share is a fraction of every total of the policy: of its requests, starts and bytes. The sum of all shares that may be
in force never exceeds one. A partition gets another share only after it has confirmed the last one. It confirms a lower
share only when no request of the higher share is open. So at most one change of a partition is on its way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any, Final

# Largest number of parts into which a total is divided.
_PARTS: Final = 100
# Smallest difference between two shares that is worth a change.
_WORTH: Final = Fraction(1, 10)


@dataclass(frozen=True, slots=True)
class TotalShare:
    """
    The share of one partition: `sent` was sent to it last, and at most `held` may be in force there.

    `need` is its number of queues that wait for requests. `is_confirmed` is true if the partition has confirmed the
    share `sent`, so that no earlier share is in force there.
    """

    sent: Fraction
    held: Fraction
    need: int = 0
    is_confirmed: bool = True

    @property
    def most(self) -> Fraction:
        return max(self.sent, self.held)


def equal_shares(names: Sequence[str]) -> dict[str, Fraction]:
    """Return equal shares, which apply until a need is known."""
    return {name: Fraction(1, len(names)) for name in names}


def share_of(sent: Mapping[str, Any], report: Mapping[str, Any] | None) -> TotalShare:
    """Return the share of a partition, from the last fact that was sent to it and from its last report."""
    share = Fraction(*sent["share"])
    if report is None:
        return TotalShare(share, share, is_confirmed=False)
    return TotalShare(share, Fraction(*report["share"]), report["need"], report["number"] == sent["number"])


def report_of(
    sent: Mapping[str, Any], before: Mapping[str, Any] | None, *, need: int, is_lowering: bool
) -> dict[str, Any]:
    """
    Return the report of a partition about the share that was sent to it.

    While requests of a higher share may be open, the partition still reports that share. The function takes it from
    `before`, the previous report.
    """
    if not is_lowering:
        return {"number": sent["number"], "share": sent["share"], "need": need}
    return {**(before or {"number": 0, "share": [1, 1]}), "need": need}


def change_shares(shares: Mapping[str, TotalShare], *, requests: int | None, turn: int) -> dict[str, Fraction]:
    """
    Return the shares to change, towards shares in proportion to the needs.

    `requests` is the total of open requests, which must be divided into whole numbers. If fewer requests than
    partitions in need exist, `turn` selects the partitions that go first. Shares are raised only by free parts; the
    parts of a lowered share are free only when it was confirmed.
    """
    if not any(share.need for share in shares.values()):
        return {}
    parts = min(requests or _PARTS, _PARTS)
    wanted = _apportion(parts, {name: share.need for name, share in shares.items()}, turn=turn)
    if not any(_is_worth(shares[name].sent, share, has_need=shares[name].need > 0) for name, share in wanted.items()):
        return {}
    changed = {name: wanted[name] for name, share in shares.items() if share.is_confirmed and wanted[name] < share.sent}
    free = 1 - sum(max(share.most, changed.get(name, share.sent)) for name, share in shares.items())
    for name, share in shares.items():
        if share.is_confirmed and wanted[name] > share.sent and free > 0:
            more = min(wanted[name] - share.sent, free)
            new = Fraction(floor((share.sent + more) * parts), parts)
            if new > share.sent:
                changed[name] = new
                free -= new - share.sent
    return changed


def _apportion(parts: int, needs: Mapping[str, int], *, turn: int) -> dict[str, Fraction]:
    """Return shares in proportion to the needs, in whole parts: at least one for each need, if there are enough."""
    needing = [name for name, need in needs.items() if need]
    first = turn % len(needing)
    given = dict.fromkeys(needs, 0) | dict.fromkeys((needing[first:] + needing[:first])[:parts], 1)
    left = parts - sum(given.values())
    exact = {name: Fraction(left * needs[name], sum(needs.values())) for name in needing}
    for name in needing:
        given[name] += floor(exact[name])
    rest = parts - sum(given.values())
    for name in sorted(needing, key=lambda name: (floor(exact[name]) - exact[name], name))[:rest]:
        given[name] += 1
    return {name: Fraction(count, parts) for name, count in given.items()}


def _is_worth(sent: Fraction, wanted: Fraction, *, has_need: bool) -> bool:
    return has_need and ((sent == 0) != (wanted == 0) or abs(sent - wanted) >= _WORTH)
