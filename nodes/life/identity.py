"""
The identity of a node's process, and the test whether that process still runs.

A pid alone identifies no process: it is reused, and means another process in another container. Boot id, pid namespace,
pid and start time together identify one process permanently, to processes that share the first two. Where the system
does not report them (anything but Linux) the values are empty. With empty values no process is ever reported as ended,
and the heartbeat alone decides.
"""

import datetime as dt
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from uuid import UUID, uuid4

from nodes.lifecycle import NodeKind

# Pattern of a tag: a seed with a tag needs a worker with the same tag.
TAG: Final = r"[A-Za-z0-9._-]{1,64}"

_PROC = Path("/proc")
# Fields of /proc/PID/stat, counted from the field after the command's name (3 and 22 in proc(5)).
_STATE, _START_TICKS = 0, 19
_DEAD_STATES = frozenset("ZXx")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """All that a node reports of itself when it registers. `capacity` is in documents."""

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
        Return a new node for the calling process, with a new id at every call.

        Call this after any fork: the child is another process than its parent.
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
        """True if a pid of that boot and namespace names a process that this process could see."""
        return bool(self.boot_id and self.pid_namespace) and (self.boot_id, self.pid_namespace) == (
            boot_id,
            pid_namespace,
        )


def is_process_gone(*, pid: int, process_start: int) -> bool:
    """
    True if the process with this pid and start time certainly no longer runs.

    A zombie counts as ended: its parent has not yet read its exit status, but it will not run again.
    """
    if not process_start:
        return False
    try:
        # This finds a process even where /proc hides the processes of other users.
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    stat = _stat_of(pid)
    return bool(stat) and (stat[_STATE] in _DEAD_STATES or int(stat[_START_TICKS]) != process_start)


def has_ended_here(*, boot_id: str, pid_namespace: str, pid: int, process_start: int) -> bool:
    """True if the process ran on this machine and has ended; False whenever that is uncertain."""
    is_here = bool(boot_id and pid_namespace) and (boot_id, pid_namespace) == (_boot_id(), _pid_namespace())
    return is_here and is_process_gone(pid=pid, process_start=process_start)


def _stat_of(pid: int) -> list[str]:
    """Return the fields of the process's stat line from its state on; empty if it cannot be read."""
    try:
        line = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return []
    # The command's name comes before these fields, in parentheses, and may itself contain spaces and parentheses.
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
