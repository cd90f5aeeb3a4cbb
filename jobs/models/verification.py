"""Verifications of outputs, and the documents that they found missing, ghost or stale."""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class Fault(models.TextChoices):
    """The ways in which an output differs from the record of it."""

    MISSING = "missing", _("missing")
    GHOST = "ghost", _("ghost")
    STALE = "stale", _("stale")


class OutputVerification(models.Model):
    """
    One comparison of an output with its record.

    `buckets` are the chosen ones, or null for all. `cursor` is the last hash that was compared. It is written in the
    transaction of each chunk, and so are the counts. `attempt` is the fence: an older attempt changes nothing.
    `compared_at` is the end of the comparison, after which repairs begin.
    """

    output = models.ForeignKey(
        "jobs.OutputConnection", on_delete=models.CASCADE, db_index=False, related_name="verifications"
    )
    task = models.BigIntegerField(_("background task, null for a command"), null=True, unique=True)
    started_at = models.DateTimeField(db_default=Now())
    started_by = models.TextField()
    moved_at = models.DateTimeField(_("last sign of life"), db_default=Now())
    compared_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    refused = models.TextField(_("why the last attempt failed"), default="", db_default="")
    buckets: "ArrayField[list[int] | None, list[int] | None]" = ArrayField(models.SmallIntegerField(), null=True)
    repairs = models.BooleanField(default=False, db_default=False)
    most = models.IntegerField(_("most repairs"), null=True)
    allows_removals = models.BooleanField(default=False, db_default=False)
    attempt = models.IntegerField(default=0, db_default=0)
    cursor: "models.UUIDField[uuid.UUID | None, uuid.UUID | None]" = models.UUIDField(null=True)
    documents = models.BigIntegerField(_("documents read"), default=0, db_default=0)
    missing = models.BigIntegerField(default=0, db_default=0)
    ghost = models.BigIntegerField(default=0, db_default=0)
    stale = models.BigIntegerField(default=0, db_default=0)
    damaged = models.BigIntegerField(_("damaged entries"), default=0, db_default=0)
    skipped = models.BigIntegerField(_("documents that a batch had claimed"), default=0, db_default=0)
    repaired = models.BigIntegerField(default=0, db_default=0)
    question = models.TextField(_("why ghosts were not removed"), default="", db_default="")

    class Meta:
        ordering = ("-id",)
        default_permissions = ("view",)
        indexes = (models.Index(fields=["output", "-id"], name="verification_of_output"),)

    def __str__(self) -> str:
        return f"{self.output_id} ({self.pk})"

    @property
    def faults(self) -> int:
        """Return the number of documents that are not in sync."""
        return self.missing + self.ghost + self.stale


class OutputFault(models.Model):
    """
    A document that a verification found. `result` is that of its repair, and "" without an attempt.

    `hash` and `identifier` name it. The identifier is empty if neither the queue nor the output knows it.
    """

    verification = models.ForeignKey(OutputVerification, on_delete=models.CASCADE, db_index=False, related_name="found")
    kind = models.CharField(max_length=10, choices=Fault.choices)
    hash: "models.UUIDField[uuid.UUID, uuid.UUID]" = models.UUIDField()
    identifier = models.TextField()
    result = models.CharField(max_length=20, default="", db_default="")

    class Meta:
        ordering = ("hash",)
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=["verification", "hash"], name="one_fault_a_document"),)

    def __str__(self) -> str:
        return self.identifier or self.hash.hex
