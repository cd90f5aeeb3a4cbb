"""A node: one run of one manager or worker process."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from nodes.lifecycle import CLUSTER_SCOPE, FINAL_STATUSES, LIVE_STATUSES, NodeKind, NodeStatus
from nodes.models.word_search import Words

# Plain strings, so that a migration keeps its values and imports none of today's code.
_KINDS = sorted(kind.value for kind in NodeKind)
_STATUSES = sorted(status.value for status in NodeStatus)
_LIVE = sorted(status.value for status in LIVE_STATUSES)
_FINAL = sorted(status.value for status in FINAL_STATUSES)


class Node(models.Model):
    """
    One run of one process. `nodes.membership.members` writes the rows over plain connections, so every column that it may leave
    out has its default in the database.
    """

    class Kind(models.TextChoices):
        MANAGER = NodeKind.MANAGER.value, _("manager")
        WORKER = NodeKind.WORKER.value, _("worker")

    class Status(models.TextChoices):
        STARTING = NodeStatus.STARTING.value, _("starting")
        RUNNING = NodeStatus.RUNNING.value, _("running")
        DRAINING = NodeStatus.DRAINING.value, _("draining")
        STOPPED = NodeStatus.STOPPED.value, _("stopped")
        FAILED = NodeStatus.FAILED.value, _("failed")

    # Chosen by the process at its start: it needs its id before it connects to the database.
    id = models.UUIDField(primary_key=True, editable=False)
    kind = models.TextField(choices=Kind)
    name = models.TextField()
    tags = ArrayField(models.TextField(), default=list, db_default=[], blank=True)
    scope = models.TextField(default=CLUSTER_SCOPE, db_default=CLUSTER_SCOPE)

    status = models.TextField(choices=Status)
    reason = models.TextField(_("reason for this status"), default="", db_default="", blank=True)
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField()
    beats = models.BigIntegerField(_("heartbeats that the database has counted"), default=0, db_default=0)
    timeout_seconds = models.FloatField(_("silence after which it fails (seconds)"))
    stopped_at = models.DateTimeField(_("end"), null=True, blank=True)

    capacity = models.IntegerField(_("documents it works on at a time"), default=0, db_default=0)
    refused_writes = models.BigIntegerField(_("writes that a fence refused"), default=0, db_default=0)
    progress = models.JSONField(_("last report of its work loop"), default=dict, db_default={}, blank=True)

    settings = models.JSONField(_("settings in use"), default=dict, db_default={}, blank=True)

    # Together these fields identify the process to other processes on the same machine.
    host = models.TextField()
    boot_id = models.TextField(default="", db_default="", blank=True)
    pid_namespace = models.TextField(default="", db_default="", blank=True)
    pid = models.IntegerField()
    process_start = models.BigIntegerField(_("clock ticks from boot to its start"), default=0, db_default=0)
    address = models.TextField(_("address of its pages"), default="", db_default="", blank=True)

    class Meta:
        ordering = ("started_at", "id")
        constraints = (
            models.CheckConstraint(condition=Q(kind__in=_KINDS), name="node_kind_is_known"),
            models.CheckConstraint(condition=Q(status__in=_STATUSES), name="node_status_is_known"),
            models.CheckConstraint(condition=Q(timeout_seconds__gt=0), name="node_timeout_is_positive"),
            models.CheckConstraint(
                condition=Q(status__in=_FINAL, stopped_at__isnull=False) | Q(status__in=_LIVE, stopped_at__isnull=True),
                name="node_has_stopped_at_when_final",
            ),
        )
        indexes = (
            models.Index(fields=["scope"], condition=Q(status__in=_LIVE), name="node_live_by_scope"),
            # Indexes for lists, which show the newest nodes only: rows of ended nodes accumulate.
            models.Index(fields=["-stopped_at", "id"], condition=Q(status__in=_FINAL), name="node_ended"),
            models.Index(fields=["-started_at", "-id"], name="node_newest"),
            GinIndex(Words("name"), name="node_words"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
