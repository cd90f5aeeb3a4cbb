"""
A read-only view of the nodes in ZooKeeper below our root, for operators.

The stored data is untrusted input: it is truncated, and shown as text. Tokens are hidden, because by its token a
process recognizes its own locks and its own place in the queue.
"""

import datetime as dt
import json
import re
from dataclasses import dataclass
from typing import Final

from nodes.coordination.port import Refused
from nodes.coordination.zookeeper_session import UNREADABLE, Absent, Address, Session

PAGE: Final = 50
# Number of characters shown of a node's data. The nodes that crawlctl writes have no more.
_MOST: Final = 2000
_SECRET: Final = re.compile("token|uuid|password|secret|credential|latch", re.IGNORECASE)
_HIDDEN: Final = "(hidden)"
# Names of latches begin with the token of a session, which is hidden.
_TOKEN: Final = re.compile(r"\b[0-9a-f]{32}(?=-\d{10}\b)")


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A child of the requested node. `size` is in bytes."""

    name: str
    path: str
    size: int
    version: int
    changed_at: dt.datetime
    is_ephemeral: bool


@dataclass(frozen=True, slots=True)
class Branch:
    """
    A node with its data, and one page of its children, sorted by name.

    `path` starts at the root, and is '' for the root itself. `above` are the (name, path) pairs of its ancestors.
    """

    root: str
    path: str
    above: tuple[tuple[str, str], ...]
    data: str
    size: int
    version: int
    changed_at: dt.datetime
    tree_nodes: tuple[TreeNode, ...]
    in_all: int
    page: int

    @property
    def next_page(self) -> int | None:
        return self.page + 1 if self.page * PAGE < self.in_all else None

    @property
    def previous_page(self) -> int | None:
        return self.page - 1 if self.page > 1 else None


class NoSuchPath(Refused):
    """No node has this path."""


def read_branch(address: Address, *, path: str = "", page: int = 1, timeout: dt.timedelta) -> Branch:
    """
    Read the node of a path below the root, and a page of its children.

    Raises:
        NoSuchPath: no node has this path.
        Refused, Unreachable: ZooKeeper refuses to show it, or does not answer.
    """
    parts = [part for part in path.split("/") if part]
    if any(part in {".", ".."} or not part.isprintable() for part in parts):
        raise NoSuchPath(f"{path!r} is not a path in ZooKeeper")
    full = "/".join([address.root, *parts])
    session = Session(address=address, timeout=timeout)
    try:
        data, stat = session.get(full)
        names = sorted(session.children(full))
        shown = names[(page - 1) * PAGE : page * PAGE]
        found = zip(shown, session.get_of([f"{full}/{name}" for name in shown]), strict=True)
        tree_nodes = tuple(
            TreeNode(
                name=_without_tokens(name),
                path="/".join([*parts, name]),
                size=len(there[0]),
                version=there[1].version,
                changed_at=_moment(there[1].changed_at),
                is_ephemeral=there[1].session != 0,
            )
            for name, there in found
            if there is not None
        )
    except Absent as error:
        raise NoSuchPath(f"ZooKeeper has no node at {full}") from error
    finally:
        session.end()
    return Branch(
        root=address.root,
        path="/".join(parts),
        above=tuple((part, "/".join(parts[:depth])) for depth, part in enumerate(parts, start=1)),
        data=_as_text(data),
        size=len(data),
        version=stat.version,
        changed_at=_moment(stat.changed_at),
        tree_nodes=tree_nodes,
        in_all=len(names),
        page=page,
    )


def _as_text(data: bytes) -> str:
    try:
        content = json.loads(data)
        if isinstance(content, dict):
            content = {key: _HIDDEN if _SECRET.search(key) else value for key, value in content.items()}
        text = json.dumps(content, indent=2, ensure_ascii=False)
    except UNREADABLE:
        text = data[: 4 * _MOST].decode(errors="replace")
    text = _without_tokens(text)
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"


def _without_tokens(text: str) -> str:
    return _TOKEN.sub(_HIDDEN, text)


def _moment(milliseconds: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(milliseconds / 1000, tz=dt.UTC)
