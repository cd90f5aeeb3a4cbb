"""
The facts that each line of a process's log has in addition to its sentence: the node, the job and the document.

The configuration of logging adds `known_facts()` to each line.
"""

from contextvars import ContextVar
from typing import Final
from urllib.parse import urlsplit

_of_process: Final[dict[str, str]] = {}
_of_task: Final[ContextVar[tuple[int, str] | None]] = ContextVar("the job and the document at hand", default=None)


def set_node(*, name: str, node_id: str) -> None:
    """Name the node that this process is."""
    _of_process.update(node=name, node_id=node_id)


def set_document(*, job: int, identifier: str) -> None:
    """Name the job and the document that the current task processes, until the task ends."""
    _of_task.set((job, identifier))


def known_facts() -> dict[str, str | int]:
    """Return the known facts of the current task: node, node_id, job, document, host."""
    facts: dict[str, str | int] = {**_of_process}
    if (at_hand := _of_task.get()) is not None:
        facts["job"], facts["document"] = at_hand
        try:
            host = urlsplit(at_hand[1]).netloc
        except ValueError:
            host = ""
        if host:
            facts["host"] = host
    return facts
