"""Names of the notification channels, and their payloads."""

import uuid
from typing import Final

# For managers: there may be documents to stuff. Payload: the scope of nodes.
STUFF: Final = "crawlctl_stuff"
# For managers: groups change their owner, or a request to change it was stored. Payload: the scope of nodes.
GROUPS: Final = "crawlctl_groups"
# For managers: the main manager gave up the leadership. Payload: the scope of nodes.
LEADERSHIP: Final = "crawlctl_leadership"
# Beginning of the name of each worker's channel: batches that the worker may take are offered. No payload.
TAKE: Final = "crawlctl_take"
# For all nodes: a job changed its state, or the limits of bins changed. Payload: the job's id, or LIMITS.
CONTROL: Final = "crawlctl_control"
LIMITS: Final = "limits"


def take_of(worker: uuid.UUID) -> str:
    """Return the channel on which a worker is notified of batches that it may take."""
    return f"{TAKE}_{worker.hex}"
