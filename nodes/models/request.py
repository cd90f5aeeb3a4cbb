"""Requests to the cluster, and the answers of its main manager."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from nodes.lifecycle import CLUSTER_SCOPE

_OPEN = ("waiting", "in_progress")


class ClusterRequest(models.Model):
    """
    One request, made on a page, by the API or by a command, and answered by the main manager of its scope.

    While a request is open, an author of an equal request gets the open one. A node is named without a foreign key,
    because the request outlives it.
    """

    class Kind(models.TextChoices):
        REBALANCE = "rebalance", _("rebalance")
        MOVE = "move", _("move a group")
        DRAIN = "drain", _("drain a node")

    class State(models.TextChoices):
        # The request has no answer yet. The main manager has to answer it.
        WAITING = "waiting", _("waiting for the main manager")
        # The request is answered, but not completed. The main manager watches its completion.
        IN_PROGRESS = "in_progress", _("in progress")
        DONE = "done", _("done")
        # The main manager could not fulfil the request, and stored the reason in `reason`. Nothing was changed.
        REFUSED = "refused", _("refused")
        # The object was no longer in the state `expected`. Nothing was changed.
        CHANGED = "changed", _("changed meanwhile")

    kind = models.TextField(choices=Kind)
    scope = models.TextField(default=CLUSTER_SCOPE)
    item = models.BigIntegerField(_("the item to move"), null=True)
    node = models.UUIDField(_("the node to drain, or to move to"), null=True)
    dry_run = models.BooleanField(default=False)
    # State of the object that the author has seen. The main manager acts only in this state. Null: in any.
    expected = models.JSONField(null=True)
    asked_by = models.TextField()
    asked_at = models.DateTimeField()
    state = models.TextField(choices=State, default=State.WAITING)
    reason = models.TextField(blank=True, default="")
    answered_at = models.DateTimeField(null=True)
    # The plan of the main manager: moves, and the load of each manager before and after.
    answer = models.JSONField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)
        permissions = (("control_cluster", "Can rebalance the cluster, move groups and drain nodes"),)
        constraints = (
            models.UniqueConstraint(
                name="one_open_request_of_its_kind",
                fields=["scope", "kind", "item", "node", "dry_run", "expected"],
                condition=Q(state__in=_OPEN),
                nulls_distinct=False,
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} asked by {self.asked_by}"

    @property
    def is_open(self) -> bool:
        return self.state in _OPEN
