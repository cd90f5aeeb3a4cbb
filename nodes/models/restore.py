"""The incarnation of the database that its nodes know, and the restores that they noticed."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class DatabaseIncarnation(models.Model):
    """The one row with the incarnation at the last registration of a node. A restore brings back an older one."""

    id = models.SmallIntegerField(primary_key=True, default=1, db_default=1)
    incarnation = models.TextField()
    since = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (models.CheckConstraint(condition=models.Q(id=1), name="database_incarnation_is_one"),)

    def __str__(self) -> str:
        return self.incarnation


class DatabaseRestore(models.Model):
    """
    A change of the incarnation: a restore, or the promotion of a standby.

    `as_of` is the last heartbeat in the database, so later changes may be lost. `outputs` has the verification of each
    output, by the id of the output: the id of its task, or a sentence with the reason why there is none. `handled_at`
    is the time at which all verifications were scheduled.
    """

    id = models.BigAutoField(primary_key=True)
    noticed_at = models.DateTimeField(_("noticed"), db_default=Now())
    as_of = models.DateTimeField(_("last heartbeat in the database"), null=True)
    before = models.TextField(_("incarnation before"))
    after = models.TextField(_("incarnation after"))
    nodes_ended = models.IntegerField(_("nodes that were marked failed"))
    outputs = models.JSONField(_("verifications of outputs"), default=dict, db_default={})
    handled_at = models.DateTimeField(_("all verifications were scheduled"), null=True)

    class Meta:
        ordering = ("-id",)
        indexes = (
            models.Index(fields=["id"], condition=models.Q(handled_at__isnull=True), name="database_restore_open"),
        )

    def __str__(self) -> str:
        return f"restore {self.pk}"
