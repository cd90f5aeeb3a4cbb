"""
The file of exported evidence: a line of JSON about the host and the period, then a line for each block.

The blocks of the host in a period are a part of its chain without missing blocks. A late report becomes a later block,
so the part may also have blocks of minutes outside of the period. The blocks of the chain of gaps follow. That chain
names the minutes in which the record may lack requests.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from jobs.evidence.chain import Block, ChainBroken, Head, canonical, follow
from jobs.evidence.coverage import OF_GAPS, Gap
from jobs.evidence.minutes import MINUTE, Facts, moment_of, moment_text

_FORMAT: Final = "crawlctl-evidence-1"
_START: Final = Head()


class BadFile(Exception):
    """The file is not an export of evidence."""


@dataclass(frozen=True, slots=True)
class Part:
    """
    A part of a chain: the place `before` its first block, and the `head` of the whole chain at the time of export.
    """

    before: Head = _START
    head: Head = _START

    def facts(self) -> Facts:
        """Return the values of the part for JSON."""
        return {
            "before": {"seq": self.before.seq, "hash": self.before.hash},
            "head": {"seq": self.head.seq, "hash": self.head.hash},
        }

    def follow(self, blocks: Iterable[Block]) -> Head:
        """
        Return the place of the last of these blocks, which must be this part of a chain.

        Raises:
            ChainBroken: the blocks are not this part of a chain.
        """
        last = follow(self.before, blocks)
        if last.seq > self.head.seq or (last.seq == self.head.seq and last.hash != self.head.hash):
            raise ChainBroken(last.seq, "is behind the last block that the file names")
        return last


_EMPTY: Final = Part()


@dataclass(frozen=True, slots=True)
class Period:
    """
    The evidence of a host from `begin` until `until` (seconds since 1970, whole minutes), in the database `partition`
    if there are several.
    """

    host: str
    agent: str
    begin: int
    until: int
    blocks: Part = _EMPTY
    gaps: Part = _EMPTY
    partition: str = ""

    def as_line(self) -> str:
        """Return the first line of the file."""
        return canonical(
            {
                "format": _FORMAT,
                "host": self.host,
                "user_agent": self.agent,
                "from": moment_text(self.begin),
                "until": moment_text(self.until),
                "partition": self.partition,
                "blocks": self.blocks.facts(),
                "gaps": self.gaps.facts(),
            }
        )


@dataclass(frozen=True, slots=True)
class Evidence:
    """A read file: its period, the contents of its blocks, the gaps in the period, and the place of its last block."""

    period: Period
    contents: list[Facts]
    gaps: list[Gap]
    last: Head


def line_of(block: Block) -> str:
    """Return the line of a block."""
    return f'{{"block":{block.content},"hash":"{block.hash}"}}'


def read(lines: Iterable[str], *, name: str) -> Evidence:
    """
    Return the evidence of a file.

    Raises:
        BadFile: the file is not an export.
        ChainBroken: the blocks are not a chain, or blocks at the end of the chain are missing.
    """
    numbered = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
    number, first = next(numbered, (1, ""))
    period = _period_of(_json(first, name, number), name)
    found = [_block(line, name, number) for number, line in numbered]
    blocks = [one for one in found if one[0]["host"] != OF_GAPS]
    for content, block in blocks:
        if content["host"] != period.host:
            raise ChainBroken(block.seq, f"is about the host {content['host']}")
    last = period.blocks.follow(block for _, block in blocks)
    gaps = [one for one in found if one[0]["host"] == OF_GAPS]
    if (last_gap := period.gaps.follow(block for _, block in gaps)) != period.gaps.head:
        raise ChainBroken(last_gap.seq + 1, "of the gaps is missing")
    return Evidence(
        period,
        [content for content, _ in blocks],
        [
            gap
            for gap in (gap_of(content) for content, _ in gaps)
            if gap.begin < period.until and gap.until > period.begin
        ],
        last,
    )


def gap_of(content: Facts) -> Gap:
    """Return the gap that the content of a block describes."""
    return Gap(int(moment_of(content["from"])), int(moment_of(content["until"])), str(content["why"]))


def _block(line: str, name: str, number: int) -> tuple[Facts, Block]:
    facts = _json(line, name, number)
    content, hash_ = facts.get("block"), facts.get("hash")
    if not isinstance(content, dict) or not isinstance(hash_, str) or not _is_block(content):
        raise BadFile(f"Line {number} of {name} is not a block.")
    return content, Block(content["seq"], canonical(content), hash_)


def _is_block(content: Facts) -> bool:
    try:
        if not _is_count(content["seq"]):
            return False
        if content["host"] == OF_GAPS:
            gap_of(content)
            return True
        moment_of(content["minute"])
        for second, count in [*content["sent"], *content["unanswered"]]:
            if not (_is_count(count) and _is_count(second) and second < MINUTE and count < 1_000_000):
                return False
        for change in content["limits"]:
            float(change["gap"])
            int(change["second"])
        for refusal in content["refusals"]:
            moment_of(refusal["sent"])
            moment_of(refusal["at"])
            str(refusal["code"])
            if refusal["until"] is not None:
                moment_of(refusal["until"])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return False
    return isinstance(content["host"], str)


def _is_count(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _period_of(facts: Facts, name: str) -> Period:
    try:
        if facts["format"] != _FORMAT:
            raise BadFile(f"{name} is not a file of evidence.")
        return Period(
            host=str(facts["host"]),
            agent=str(facts["user_agent"]),
            begin=int(moment_of(facts["from"])),
            until=int(moment_of(facts["until"])),
            blocks=_part(facts["blocks"]),
            gaps=_part(facts["gaps"]),
            partition=str(facts["partition"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise BadFile(f"{name} is not a file of evidence.") from None


def _part(facts: Facts) -> Part:
    before, head = (Head(int(facts[key]["seq"]), str(facts[key]["hash"])) for key in ("before", "head"))
    return Part(before, head)


def _json(line: str, name: str, number: int) -> Any:  # noqa: ANN401 (any JSON)
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise BadFile(f"Line {number} of {name} is not JSON.") from None
    if not isinstance(found, dict):
        raise BadFile(f"Line {number} of {name} is not a JSON object.")
    return found
