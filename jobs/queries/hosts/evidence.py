"""The evidence of politeness of a host: the state of its chain, its newest minutes, and the export of a period."""

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Max, Min

from jobs.evidence.chain import Block, ChainBroken, Head, follow
from jobs.evidence.coverage import OF_GAPS
from jobs.evidence.files import Part, Period, line_of
from jobs.evidence.minutes import Facts, count_of
from jobs.models import EvidenceBlock, EvidenceChain
from jobs.partitions import here
from jobs.settings.table import USER_AGENT
from nodes.errors import Invalid, Unknown
from nodes.settings.running import current

# Newest blocks whose hashes a page verifies.
_VERIFIED: Final = 500
# Blocks that an export reads together.
_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class ChainState:
    """
    The chain of a host: its first and last minutes, its head, and the number of pruned blocks.

    `verified` of its newest blocks were verified. `problem` is why they are not intact, or ''. `newest` are the contents of
    the verified blocks, the oldest first.
    """

    host: str
    first: dt.datetime
    last: dt.datetime
    head: Head
    pruned: Head
    pruned_at: dt.datetime | None
    verified: int
    problem: str
    newest: Sequence[Facts]

    @property
    def is_intact(self) -> bool:
        return not self.problem

    @property
    def length(self) -> int:
        return self.head.seq


def read_chain(host: str) -> ChainState | None:
    """Return the state of the chain of a host; None if it has no block."""
    chain = EvidenceChain.objects.filter(host=host).first()
    if chain is None or chain.seq <= chain.pruned_seq:
        return None
    after = max(chain.pruned_seq, chain.seq - _VERIFIED)
    blocks = _blocks(chain.pk, after, chain.seq)
    before = Head(chain.pruned_seq, chain.pruned_hash)
    if after > chain.pruned_seq:
        # The block before the verified ones gives the hash from which they follow.
        before = Head(after, EvidenceBlock.objects.values_list("hash", flat=True).get(chain=chain, seq=after))
    problem = ""
    try:
        if follow(before, blocks) != Head(chain.seq, chain.hash):
            problem = "The last block is not the head of the chain."
    except ChainBroken as broken:
        problem = str(broken)
    ends = EvidenceBlock.objects.filter(chain=chain).aggregate(first=Min("minute"), last=Max("minute"))
    return ChainState(
        host=host,
        first=ends["first"],
        last=ends["last"],
        head=Head(chain.seq, chain.hash),
        pruned=Head(chain.pruned_seq, chain.pruned_hash),
        pruned_at=chain.pruned_at,
        verified=len(blocks),
        problem=problem,
        newest=[json.loads(block.content) for block in blocks],
    )


def export(host: str, *, begin: dt.datetime | None = None, until: dt.datetime | None = None) -> Iterator[str]:
    """
    Return the lines of the evidence of a host in a period: by default, all of its decided minutes.

    Raises:
        Unknown: the host has no evidence.
        Invalid: the period is empty.
    """
    chain = EvidenceChain.objects.filter(host=host).first()
    gaps = EvidenceChain.objects.filter(host=OF_GAPS).first()
    first = None
    if chain is not None:
        first = EvidenceBlock.objects.filter(chain=chain).aggregate(first=Min("minute"))["first"]
    if chain is None or gaps is None or first is None:
        raise Unknown("evidence", host, f"There is no evidence of requests to {host}.")
    begin = max(_whole(begin or first), first)
    decided = gaps.complete_until
    until = decided if until is None or decided is None else min(_whole(until), decided)
    if until is None or begin >= until:
        raise Invalid({"until": ["The period has no complete minute. A minute is complete about 3 minutes later."]})
    found = EvidenceBlock.objects.filter(chain=chain, minute__gte=begin, minute__lt=until).aggregate(
        first=Min("seq"), last=Max("seq")
    )
    last = found["last"] or chain.seq
    after = (found["first"] or chain.seq + 1) - 1
    gap = EvidenceBlock.objects.filter(chain=gaps, minute__gt=begin).aggregate(first=Min("seq"))["first"]
    after_gap = (gap or gaps.seq + 1) - 1
    period = Period(
        host=host,
        agent=current()[USER_AGENT],
        begin=int(begin.timestamp()),
        until=int(until.timestamp()),
        blocks=_part(chain, after),
        gaps=_part(gaps, after_gap),
        partition=here.name(),
    )
    return _lines(period, (chain.pk, after, last), (gaps.pk, after_gap, gaps.seq))


def _part(chain: EvidenceChain, after: int) -> Part:
    before = Head(after, chain.pruned_hash)
    if after > chain.pruned_seq:
        before = Head(after, EvidenceBlock.objects.values_list("hash", flat=True).get(chain=chain, seq=after))
    return Part(before, Head(chain.seq, chain.hash))


def _lines(period: Period, *parts: tuple[int, int, int]) -> Iterator[str]:
    yield period.as_line() + "\n"
    for chain, first, last in parts:
        after = first
        while after < last:
            blocks = _blocks(chain, after, min(last, after + _PAGE))
            if not blocks:
                # Retention has deleted them since. The check then finds that blocks are missing.
                return
            yield "".join(f"{line_of(block)}\n" for block in blocks)
            after = blocks[-1].seq


def _blocks(chain: int, after: int, last: int) -> list[Block]:
    rows = EvidenceBlock.objects.filter(chain_id=chain, seq__gt=after, seq__lte=last).order_by("seq")
    return [Block(*row) for row in rows.values_list("seq", "content", "hash")]


def _whole(moment: dt.datetime) -> dt.datetime:
    return moment.astimezone(dt.UTC).replace(second=0, microsecond=0)


def minutes_of(contents: Sequence[Facts]) -> list[dict[str, Any]]:
    """Return the minutes of these contents with their rates and limits, the oldest first. Late reports are added up."""
    minutes: dict[str, dict[str, Any]] = {}
    for content in contents:
        minute = minutes.setdefault(
            content["minute"],
            {"minute": content["minute"], "requests": 0, "most_in_a_second": 0, "gap": None, "refusals": 0},
        )
        minute["requests"] += count_of(content["sent"])
        minute["refusals"] += len(content["refusals"])
        most = max((count for _, count in content["sent"]), default=0)
        minute["most_in_a_second"] = max(minute["most_in_a_second"], most)
        gaps = [change["gap"] for change in content["limits"]]
        if gaps:
            minute["gap"] = min(gaps) if minute["gap"] is None else min(minute["gap"], *gaps)
    return [minutes[minute] for minute in sorted(minutes)]
