"""Requests to the cluster: what an administrator wishes, and what its main came to."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from nodes.lifecycle import CLUSTER_SCOPE

_OPEN = ("waiting", "under way")


class ClusterRequest(models.Model):
    """
    One wish, written by a door and answered by the main of its scope.

    Whoever wishes the same while one is open gets that one. A node is named without a foreign key: what
    was wished outlives it.
    """

    class Kind(models.TextChoices):
        REBALANCE = "rebalance", _("rebalance")
        MOVE = "move", _("move a group")
        DRAIN = "drain", _("drain a node")

    class State(models.TextChoices):
        # Nobody has answered yet; the main does.
        WAITING = "waiting", _("waiting for the main")
        # Answered: what was begun has not arrived yet. The main looks after it.
        UNDER_WAY = "under way", _("under way")
        DONE = "done", _("done")
        # The main could not, and says why in `reason`. Nothing was changed.
        REFUSED = "refused", _("refused")

    kind = models.TextField(choices=Kind)
    scope = models.TextField(default=CLUSTER_SCOPE)
    item = models.BigIntegerField(_("the item to move"), null=True)
    node = models.UUIDField(_("the node to drain, or to move to"), null=True)
    dry_run = models.BooleanField(default=False)
    asked_by = models.TextField()
    asked_at = models.DateTimeField()
    state = models.TextField(choices=State, default=State.WAITING)
    reason = models.TextField(blank=True, default="")
    answered_at = models.DateTimeField(null=True)
    # What the main does about it: moves, and who carries what before and after.
    answer = models.JSONField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        permissions = (("control_cluster", "Can rebalance the cluster, move groups and drain nodes"),)
        constraints = (
            models.UniqueConstraint(
                name="one_open_request_of_its_kind",
                fields=["scope", "kind", "item", "node", "dry_run"],
                condition=Q(state__in=_OPEN),
                nulls_distinct=False,
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} asked by {self.asked_by}"

    @property
    def is_open(self) -> bool:
        return self.state in _OPEN
