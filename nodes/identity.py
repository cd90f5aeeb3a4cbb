"""
Which process a node is, and whether that process still is.

A pid alone names nobody: it is reused, and means something else in another container. Boot id, pid
namespace, pid and the moment of the start together name one process for ever, for those that share
the first two. Where the system does not tell (anything but Linux) the values are empty, and then
nobody claims that a process is gone: the heartbeat alone decides.
"""

import datetime as dt
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from uuid import UUID, uuid4

from nodes.lifecycle import NodeKind

# What a tag is: a word that seeds and workers are matched by.
TAG: Final = r"[A-Za-z0-9._-]{1,64}"

_PROC = Path("/proc")
# Fields of /proc/PID/stat, counted from the one behind the command's name (see proc(5): 3 and 22).
_STATE, _START_TICKS = 0, 19
_DEAD_STATES = frozenset("ZXx")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """Everything that a node says of itself when it registers. `capacity` is in documents."""

    id: UUID
    kind: NodeKind
    scope: str
    name: str
    timeout: dt.timedelta
    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    process_start: int
    capacity: int = 0
    tags: tuple[str, ...] = ()
    address: str = ""

    @classmethod
    def of_this_process(
        cls,
        *,
        kind: NodeKind,
        scope: str,
        name: str,
        timeout: dt.timedelta,
        capacity: int = 0,
        tags: tuple[str, ...] = (),
        address: str = "",
    ) -> Self:
        """
        Return a new node that is the calling process: its id is new with every call.

        To be called after any fork: the child is another process than its parent.
        """
        pid = os.getpid()
        stat = _stat_of(pid)
        return cls(
            id=uuid4(),
            kind=kind,
            scope=scope,
            name=name,
            timeout=timeout,
            host=socket.gethostname(),
            boot_id=_boot_id(),
            pid_namespace=_pid_namespace(),
            pid=pid,
            process_start=int(stat[_START_TICKS]) if stat else 0,
            capacity=capacity,
            tags=tags,
            address=address,
        )

    def shares_processes_with(self, *, boot_id: str, pid_namespace: str) -> bool:
        """Whether a pid of that boot and namespace names a process that this one could see."""
        return bool(self.boot_id and self.pid_namespace) and (self.boot_id, self.pid_namespace) == (
            boot_id,
            pid_namespace,
        )


def is_process_gone(*, pid: int, process_start: int) -> bool:
    """
    Return whether the process with this pid and start no longer runs; False whenever that is not certain.

    A zombie is gone: nobody has asked for its exit status yet, but it will not run again.
    """
    if not process_start:
        return False
    try:
        # Where other users' processes are hidden from /proc, this still tells that there is one.
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    stat = _stat_of(pid)
    return bool(stat) and (stat[_STATE] in _DEAD_STATES or int(stat[_START_TICKS]) != process_start)


def _stat_of(pid: int) -> list[str]:
    """The fields of the process's stat line from its state on; empty where it cannot be read."""
    try:
        line = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return []
    # The command's name comes before, in parentheses, and may itself contain any of them.
    return line.rpartition(")")[2].split()


def _boot_id() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _pid_namespace() -> str:
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return ""
