"""Names of the notification channels, and their payloads."""

from typing import Final

# Managers listen: there may be documents to stuff. Payload: the scope of nodes.
STUFF: Final = "crawlctl_stuff"
# Managers listen: groups change their owner, or a request for that was stored. Payload: the scope of nodes.
GROUPS: Final = "crawlctl_groups"
# Managers listen: the main manager gave up its office. Payload: the scope of nodes.
OFFICE: Final = "crawlctl_office"
# Workers listen: a batch is offered. Payload: the scope of nodes.
TAKE: Final = "crawlctl_take"
# All nodes listen: a job changed its state, or the limits of bins changed. Payload: the job's id, or LIMITS.
CONTROL: Final = "crawlctl_control"
LIMITS: Final = "limits"
