"""
The tables of the coordination store `database`. `nodes.coordination.database` writes them over plain connections.

They have no foreign keys: a cluster is a name, and so are nodes, jobs and items.
"""

import datetime as dt

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.functions import RandomUUID
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

# Latest moment that a lock may show as its end: a later one could not be represented.
_LATEST = dt.datetime(9000, 1, 1, tzinfo=dt.UTC)


class CoordinationCluster(models.Model):
    """
    A set of nodes that share jobs: its main node, and the versions of the facts on which the main node decides.

    `term` only grows. A transaction that changes members, pools, shares or the main node locks this row before all
    others.
    """

    name = models.TextField(primary_key=True)
    term = models.BigIntegerField(default=0, db_default=0)
    main = models.TextField(_("main member; empty if there is none"), default="", db_default="")
    main_instance = models.UUIDField(null=True)
    since = models.DateTimeField(_("start or end of the main's term"), db_default=Now())
    pool_version = models.BigIntegerField(default=0, db_default=0)
    worker_version = models.BigIntegerField(default=0, db_default=0)
    assignment_version = models.BigIntegerField(default=0, db_default=0)
    identity = models.UUIDField(_("identity of the cluster for stores beside the database"), db_default=RandomUUID())

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return f"{self.name}, term {self.term}"


class CoordinationMember(models.Model):
    """A node of a cluster, while it beats. `instance` distinguishes its process from earlier ones of the same name."""

    pk = models.CompositePrimaryKey("cluster", "node")
    cluster = models.TextField()
    node = models.TextField()
    instance = models.UUIDField()
    jobs = ArrayField(models.TextField(), verbose_name=_("jobs it can run"))
    heartbeat_at = models.DateTimeField()
    steady_since = models.DateTimeField(_("start of its heartbeats without a gap"))
    timeout_seconds = models.FloatField(_("silence after which it is lost (seconds)"))

    class Meta:
        ordering = ("cluster", "node")

    def __str__(self) -> str:
        return self.node


class WorkPool(models.Model):
    """The items of a job."""

    pk = models.CompositePrimaryKey("cluster", "job")
    cluster = models.TextField()
    job = models.TextField()
    items = ArrayField(models.TextField())

    class Meta:
        ordering = ("cluster", "job")

    def __str__(self) -> str:
        return self.job


class WorkShare(models.Model):
    """The assignment of an item to a node."""

    pk = models.CompositePrimaryKey("cluster", "job", "item")
    cluster = models.TextField()
    job = models.TextField()
    item = models.TextField()
    node = models.TextField()

    class Meta:
        ordering = ("cluster", "job", "item")
        indexes = (models.Index(fields=["cluster", "node"], name="work_share_by_node"),)

    def __str__(self) -> str:
        return f"{self.job}/{self.item}"


class ItemLock(models.Model):
    """
    The node that holds an item, the start of its lock, and the end of its lease. Only the holder knows `token`.

    A released lock stays, without a node. `paced_from` is the moment from which the time to the item's next run counts.
    """

    pk = models.CompositePrimaryKey("cluster", "job", "item")
    cluster = models.TextField()
    job = models.TextField()
    item = models.TextField()
    node = models.TextField()
    token = models.UUIDField()
    since = models.DateTimeField()
    expires_at = models.DateTimeField()
    paced_from = models.DateTimeField(null=True)
    note = models.TextField(default="", db_default="")
    host = models.TextField(default="", db_default="")

    class Meta:
        ordering = ("cluster", "job", "item")
        constraints = (models.CheckConstraint(condition=Q(expires_at__lt=_LATEST), name="item_lock_ends"),)

    def __str__(self) -> str:
        return f"{self.job}/{self.item}"
