"""
The tables of distributed jobs: status, switches and requests. They are the same for both stores of coordination.

`nodes.distributed.records` writes them over plain connections.
"""

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _


class DistributedJobOnNode(models.Model):
    """
    The status of a distributed job on one node, as the node reported it at `seen_at`. Counts are totals since the start
    of the node.
    """

    pk = models.CompositePrimaryKey("cluster", "job", "node")
    cluster = models.TextField()
    job = models.TextField()
    node = models.TextField()
    items = ArrayField(models.TextField(), verbose_name=_("items"))
    in_progress = models.IntegerField(_("runs in progress"))
    runs = models.BigIntegerField()
    failures = models.BigIntegerField()
    failures_in_a_row = models.IntegerField()
    last_began_at = models.DateTimeField(null=True)
    last_seconds = models.FloatField(null=True)
    last_failure = models.TextField(default="", db_default="")
    next_at = models.DateTimeField(null=True)
    problem = models.TextField(_("problem of its pool or schedule"), default="", db_default="")
    refusal = models.TextField(_("reason why the main node assigned no items"), default="", db_default="")
    seen_at = models.DateTimeField()

    objects: ClassVar[models.Manager["DistributedJobOnNode"]] = models.Manager()

    class Meta:
        db_table = "nodes_distributedjobonnode"
        ordering = ("cluster", "job", "node")
        indexes = (models.Index(fields=["seen_at"], name="job_on_node_seen"),)

    def __str__(self) -> str:
        return f"{self.job} on {self.node}"


class DistributedJobSwitch(models.Model):
    """
    The switch of a distributed job.

    The job `*` stands for all jobs and overrides their individual switches. The empty name stands for jobs without an
    individual switch. No job has either name.
    """

    pk = models.CompositePrimaryKey("cluster", "job")
    cluster = models.TextField()
    job = models.TextField(blank=True)
    is_disabled = models.BooleanField()
    changed_by = models.TextField(default="", db_default="")
    changed_at = models.DateTimeField()

    objects: ClassVar[models.Manager["DistributedJobSwitch"]] = models.Manager()

    class Meta:
        db_table = "nodes_distributedjobswitch"
        ordering = ("cluster", "job")

    def __str__(self) -> str:
        return f"{self.job or 'others'}: {'disabled' if self.is_disabled else 'enabled'}"


class RedistributionRequest(models.Model):
    """The latest request that the main node of a cluster redistributes all items."""

    cluster = models.TextField(primary_key=True)
    asked_at = models.DateTimeField()
    asked_by = models.TextField()

    class Meta:
        db_table = "nodes_redistributionrequest"
        ordering = ("cluster",)

    def __str__(self) -> str:
        return f"{self.cluster}, {self.asked_at:%Y-%m-%d %H:%M:%S}"
