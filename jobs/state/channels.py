"""Names of the notification channels, and their payloads."""

import uuid
from typing import Final

# Managers listen: there may be documents to stuff. Payload: the scope of nodes.
STUFF: Final = "crawlctl_stuff"
# Managers listen: groups change their owner, or a request for that was stored. Payload: the scope of nodes.
GROUPS: Final = "crawlctl_groups"
# Managers listen: the main manager gave up its office. Payload: the scope of nodes.
OFFICE: Final = "crawlctl_office"
# The beginning of the channel of each worker, which listens there: batches are offered that it may take. No payload.
TAKE: Final = "crawlctl_take"
# All nodes listen: a job changed its state, or the limits of bins changed. Payload: the job's id, or LIMITS.
CONTROL: Final = "crawlctl_control"
LIMITS: Final = "limits"


def take_of(worker: uuid.UUID) -> str:
    """Return the channel on which a worker is notified of batches that it may take."""
    return f"{TAKE}_{worker.hex}"
