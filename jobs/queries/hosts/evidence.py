"""The evidence of politeness of a host: the state of its chain, its newest minutes, and the export of a period."""

import datetime as dt
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Max, Min

from jobs.evidence.chain import Block, ChainBroken, Head, contents_after
from jobs.evidence.coverage import OF_GAPS, Gap
from jobs.evidence.files import Part, Period, gap_of, line_of
from jobs.evidence.minutes import Facts, count_of
from jobs.models import EvidenceBlock, EvidenceChain
from jobs.partitions import this_partition
from jobs.settings.kept import KEEP_EVIDENCE
from jobs.settings.table import USER_AGENT
from nodes.errors import Invalid, Unknown
from nodes.settings.running import current

# Number of newest blocks whose hashes a page verifies: a day of minutes.
_VERIFIED: Final = 1_440
_DAY: Final = dt.timedelta(days=1)
# Largest number of gaps of the last day that a page shows.
_GAPS: Final = 50
# Number of blocks that an export reads together.
_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Minute:
    """
    The requests to a host in one minute. `gap` is the shortest minimum gap between two requests that was in force
    (seconds); None if there was no request. `refusals` are answers that made the crawler wait.
    """

    at: dt.datetime
    requests: int
    unanswered: int
    most_in_a_second: int
    bytes_read: int
    gap: float | None
    refusals: int


@dataclass(frozen=True, slots=True)
class ChainState:
    """
    The chain of a host: its head, and the number of its blocks that retention has deleted.

    The hashes of the `verified` newest blocks were computed again. `problem` is why they are not intact, or ''. The
    record is complete until a moment, except in its gaps. `minutes` are the minutes of the last day.
    """

    head: Head
    pruned: int
    verified: int
    problem: str
    complete_until: dt.datetime | None
    gaps: Sequence[Gap]
    minutes: Sequence[Minute]


def read_chain(host: str, *, now: dt.datetime) -> ChainState | None:
    """Return the state of the chain of a host; None if it has no block."""
    chain = EvidenceChain.objects.filter(host=host).first()
    if chain is None or chain.seq <= chain.pruned_seq:
        return None
    after = max(chain.pruned_seq, chain.seq - _VERIFIED)
    blocks = _blocks(chain.pk, after, chain.seq)
    head = Head(chain.seq, chain.hash)
    problem = ""
    contents: list[Facts] = []
    try:
        last, contents = contents_after(_part(chain, after).before, blocks)
        if last != head:
            problem = f"Block {chain.seq} is not the last one of the chain."
    except ChainBroken as broken:
        problem = str(broken)
    gaps = EvidenceChain.objects.filter(host=OF_GAPS).first()
    found = EvidenceBlock.objects.filter(chain=gaps, minute__gt=now - _DAY).order_by("-seq")[:_GAPS]
    begin = (now - _DAY).timestamp()
    # A changed block may have any content, so a broken chain has no minutes.
    minutes = [] if problem else minutes_of(contents)
    return ChainState(
        head,
        pruned=chain.pruned_seq,
        verified=len(blocks),
        problem=problem,
        complete_until=gaps.complete_until if gaps else None,
        gaps=[gap_of(json.loads(block.content)) for block in found],
        minutes=[minute for minute in minutes if minute.at.timestamp() >= begin],
    )


def evidence_facts(host: str, *, now: dt.datetime) -> Facts:
    """Return the state of the chain of a host as the API has it, also if it has no block."""
    state = read_chain(host, now=now) or ChainState(Head(0, ""), 0, 0, "", None, (), ())
    return {
        "is_recorded": is_recorded(),
        "blocks": state.head.seq,
        "hash": state.head.hash,
        "pruned": state.pruned,
        "verified": state.verified,
        "problem": state.problem,
        "complete_until": state.complete_until,
        "gaps": [{"since": moment(gap.begin), "until": moment(gap.until), "why": gap.why} for gap in state.gaps],
        "minutes": state.minutes,
    }


def is_recorded() -> bool:
    """True if the settings switch the record on."""
    return current()[KEEP_EVIDENCE] > 0


def moment(seconds: float) -> dt.datetime:
    """Return a moment of a block, which has seconds since 1970."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def read_head(host: str) -> Head | None:
    """Return the last block of the chain of a host; None if it has no block."""
    row = EvidenceChain.objects.filter(host=host).values_list("seq", "hash").first()
    return Head(*row) if row and row[0] else None


def export(host: str, *, begin: dt.datetime | None = None, until: dt.datetime | None = None) -> Iterator[str]:
    """
    Return the lines of the evidence of a host in a period: by default, from its first request to the last decided
    minute. The period may begin before the first request if all blocks since then are stored: the record then shows
    that no request was sent, or has a gap.

    Raises:
        Unknown: the host has no evidence.
        Invalid: the period is empty, or its end is not after its begin.
    """
    if begin is not None and until is not None and begin >= until:
        since = begin.isoformat(timespec="minutes")
        raise Invalid(
            {"until": [f"The end must be after the begin, {since}. Choose a later end, or an earlier begin."]}
        )
    chain = EvidenceChain.objects.filter(host=host).first()
    gaps = EvidenceChain.objects.filter(host=OF_GAPS).first()
    first = None
    if chain is not None:
        first = EvidenceBlock.objects.filter(chain=chain).aggregate(first=Min("minute"))["first"]
    if chain is None or gaps is None or first is None:
        raise Unknown("evidence", host, f"There is no evidence of requests to {host}.")
    begin = first if begin is None else max(_whole(begin), _earliest(chain, gaps, first))
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
        partition=this_partition.name(),
    )
    return _lines(period, (chain.pk, after, last), (gaps.pk, after_gap, gaps.seq))


def _earliest(chain: EvidenceChain, gaps: EvidenceChain, first: dt.datetime) -> dt.datetime:
    """
    Return the earliest minute from which on the stored blocks are complete: the minute of the `first` block, or the
    begin of the record.
    """
    if chain.pruned_seq or gaps.pruned_seq:
        return first
    begins = EvidenceBlock.objects.filter(chain=gaps, seq=1).values_list("minute", flat=True).first()
    return first if begins is None else min(begins, first)


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
                # Retention has deleted these blocks since. A check of the export then finds that blocks are missing.
                return
            yield "".join(f"{line_of(block)}\n" for block in blocks)
            after = blocks[-1].seq


def _blocks(chain: int, after: int, last: int) -> list[Block]:
    rows = EvidenceBlock.objects.filter(chain_id=chain, seq__gt=after, seq__lte=last).order_by("seq")
    return [Block(*row) for row in rows.values_list("seq", "content", "hash")]


def _whole(moment: dt.datetime) -> dt.datetime:
    return moment.astimezone(dt.UTC).replace(second=0, microsecond=0)


def minutes_of(contents: Sequence[Facts]) -> list[Minute]:
    """Return the minutes of these contents, the oldest first. Late reports are added up."""
    of_minute: dict[str, list[Facts]] = {}
    for content in contents:
        of_minute.setdefault(content["minute"], []).append(content)
    return [_minute(text, of_minute[text]) for text in sorted(of_minute)]


def _minute(text: str, contents: Sequence[Facts]) -> Minute:
    seconds: Counter[int] = Counter()
    for content in contents:
        seconds.update(dict(content["sent"]))
    gaps = [float(change["gap"]) for content in contents for change in content["limits"]]
    return Minute(
        at=dt.datetime.fromisoformat(text),
        requests=seconds.total(),
        unanswered=sum(count_of(content["unanswered"]) for content in contents),
        most_in_a_second=max(seconds.values(), default=0),
        bytes_read=sum(content["bytes"] for content in contents),
        gap=min(gaps, default=None),
        refusals=sum(len(content["refusals"]) for content in contents),
    )
