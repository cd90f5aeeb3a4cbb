"""
Events that a manager is notified of between its passes: notifications of the database, answers to its heartbeats, and
changes of its membership session.
"""

import threading
from types import MappingProxyType
from typing import Final

from jobs.state import channels
from nodes.membership.members import Asks
from nodes.tasks.channels import RECRUIT

# The conditions that the heartbeat of a manager reads in the database. A manager without a group has no duties.
_OWNS: Final = "owns"
ASKS: Final[Asks] = MappingProxyType({_OWNS: "EXISTS (SELECT FROM jobs_throttlegroup WHERE owner_id = beaten.id)"})


class Events:
    """Flags, one for each event. The thread that receives an event sets its flag, and the next pass clears it."""

    def __init__(self, *, scope: str) -> None:
        self._scope = scope
        # Set with each event: the manager starts a pass.
        self.woken = threading.Event()
        self.control_changed = threading.Event()
        self.groups_changed = threading.Event()
        self.tasks_changed = threading.Event()
        self.limits_changed = threading.Event()
        self.membership_changed = threading.Event()
        # Number of notifications that the state of a job has changed.
        self.control_changes = 0
        self.may_own_groups = False

    def on_notification(self, channel: str, payload: str) -> None:
        """Record a notification. Runs in the heartbeat's thread."""
        if channel in {channels.STUFF, channels.GROUPS, channels.LEADERSHIP} and payload != self._scope:
            return
        if channel == channels.GROUPS:
            self.groups_changed.set()
        elif channel == channels.LEADERSHIP:
            self.membership_changed.set()
        elif channel == RECRUIT:
            self.tasks_changed.set()
        elif channel != channels.STUFF:
            self.control_changes += 1
            self.control_changed.set()
            if payload == channels.LIMITS:
                self.limits_changed.set()
        self.woken.set()

    def answered(self, true: frozenset[str]) -> None:
        """Record which conditions of `ASKS` a heartbeat found true. Runs in the thread of the heartbeat."""
        self.may_own_groups = _OWNS in true

    def note_membership_change(self) -> None:
        """Let the next pass check the term. Runs in the thread of the membership session."""
        self.membership_changed.set()
        self.woken.set()


def happened(event: threading.Event) -> bool:
    """True if the event was set since the last call; clears it."""
    if not event.is_set():
        return False
    event.clear()
    return True
