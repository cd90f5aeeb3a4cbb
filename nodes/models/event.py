"""The journal of nodes."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from nodes.models.node import Node


class NodeEvent(models.Model):
    """One event of a node, written in the transaction that caused it."""

    class Kind(models.TextChoices):
        REGISTERED = "registered", _("registered")
        RUNNING = "running", _("began to work")
        DRAINING = "draining", _("began to drain")
        STOPPED = "stopped", _("stopped")
        MARKED_FAILED = "marked_failed", _("was marked failed")
        ELECTED = "elected", _("became main manager")
        RESIGNED = "resigned", _("resigned as main manager")
        SETTINGS = "settings", _("settings were stored")
        GIVEN = "given", _("was given groups")
        MOVING = "moving", _("is to hand groups over")
        HANDED_OVER = "handed_over", _("handed groups over")
        ASKED = "asked", _("was requested by an administrator")
        CHANGED = "changed", _("was changed")

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField(db_default=Now())
    # Written by the node itself or by its judge, and deleted before the node: no constraint needs to check it.
    node = models.ForeignKey(
        Node, null=True, blank=True, on_delete=models.SET_NULL, db_constraint=False, related_name="events"
    )
    scope = models.TextField()
    kind = models.SlugField(choices=Kind, db_index=False)
    message = models.TextField()
    detail = models.JSONField(default=dict, db_default={}, blank=True)

    class Meta:
        ordering = ("-at", "-id")
        indexes = (
            models.Index(fields=["scope", "-at"], name="node_event_by_scope"),
            # The index is small, because few of the events are elections.
            models.Index(fields=["scope", "-at"], name="node_event_of_election", condition=models.Q(kind="elected")),
        )

    def __str__(self) -> str:
        return self.message
