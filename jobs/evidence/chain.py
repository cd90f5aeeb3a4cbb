"""
The chain of blocks: each block contains the hash of the block before it, so a change of one block breaks the chain.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

# The hash before the first block of a chain.
NOTHING_BEFORE: Final = "0" * 64


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a chain, or the place of a block in it: the number of the block, and its hash."""

    seq: int = 0
    hash: str = NOTHING_BEFORE


@dataclass(frozen=True, slots=True)
class Block:
    """A block: its content as canonical JSON, which has its number and the hash before it, and its own hash."""

    seq: int
    content: str
    hash: str


class ChainBroken(Exception):
    """A block does not follow from the block before it. The message names the block and the reason."""

    def __init__(self, seq: int, why: str) -> None:
        self.seq = seq
        super().__init__(f"Block {seq} {why}.")


def canonical(content: Any) -> str:  # noqa: ANN401 (any JSON)
    """Return JSON in the form that is hashed: sorted keys, no spaces, ASCII."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def hash_of(content: str) -> str:
    """Return the hash of a content: SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content.encode()).hexdigest()


def next_block(head: Head, content: dict[str, Any]) -> Block:
    """Return the block with this content that follows the head."""
    text = canonical({**content, "seq": head.seq + 1, "previous": head.hash})
    return Block(head.seq + 1, text, hash_of(text))


def follow(head: Head, blocks: Iterable[Block]) -> Head:
    """
    Return the head after these blocks.

    Raises:
        ChainBroken: a block was changed, removed, inserted or moved.
    """
    return contents_after(head, blocks)[0]


def contents_after(head: Head, blocks: Iterable[Block]) -> tuple[Head, list[dict[str, Any]]]:
    """
    Return the head after these blocks, and their contents.

    Raises:
        ChainBroken: a block was changed, removed, inserted or moved.
    """
    contents = []
    for block in blocks:
        if hash_of(block.content) != block.hash:
            raise ChainBroken(block.seq, "does not match its hash")
        content = _object_in(block)
        if block.seq != head.seq + 1 or content.get("seq") != block.seq:
            raise ChainBroken(block.seq, f"is in the place of block {head.seq + 1}")
        if content.get("previous") != head.hash:
            raise ChainBroken(block.seq, "does not contain the hash of the block before it")
        head = Head(block.seq, block.hash)
        contents.append(content)
    return head, contents


def _object_in(block: Block) -> dict[str, Any]:
    try:
        content = json.loads(block.content)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise ChainBroken(block.seq, "is not a JSON object")
    return content
