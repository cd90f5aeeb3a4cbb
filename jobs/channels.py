"""Names of the notification channels, and what their payloads say."""

from typing import Final

# Managers listen: something may be there to stuff. Payload: the scope of nodes.
STUFF: Final = "crawlctl_stuff"
# Managers listen: groups change hands, or somebody wishes that. Payload: the scope of nodes.
GROUPS: Final = "crawlctl_groups"
# Workers listen: a batch is offered. Payload: the scope of nodes.
TAKE: Final = "crawlctl_take"
# Everybody listens: a job changed its state, or what limits bins was changed. Payload: the job's id, or LIMITS.
CONTROL: Final = "crawlctl_control"
LIMITS: Final = "limits"
