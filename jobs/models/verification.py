"""Verifications of outputs and of archives, and their findings."""

import uuid
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class Fault(models.TextChoices):
    """The ways in which a document in an output may differ from its record."""

    MISSING = "missing", _("missing")
    GHOST = "ghost", _("ghost")
    STALE = "stale", _("stale")


class Verification(models.Model):
    """
    One verification, with its progress. `attempt` is the fence: an older attempt changes nothing.

    `MOVING` are the columns that change while it runs.
    """

    MOVING: ClassVar[tuple[str, ...]] = ()

    task = models.BigIntegerField(_("background task, null for a command"), null=True, unique=True)
    started_at = models.DateTimeField(db_default=Now())
    started_by = models.TextField()
    moved_at = models.DateTimeField(_("last sign of life"), db_default=Now())
    ended_at = models.DateTimeField(null=True)
    refused = models.TextField(_("why the last attempt failed"), default="", db_default="")
    repairs = models.BooleanField(default=False, db_default=False)
    attempt = models.IntegerField(default=0, db_default=0)

    class Meta:
        abstract = True


class OutputVerification(Verification):
    """
    One comparison of an output with its record.

    `buckets` are the compared buckets, or null for all. `cursor` is the last hash that was compared. The cursor and the
    counts are written in the transaction of each chunk. `compared_at` is the end of the comparison, after which repairs
    begin.
    """

    MOVING = (
        *("cursor", "compared_at", "ended_at", "documents", "missing", "ghost", "stale", "damaged", "skipped"),
        *("repaired", "question"),
    )

    output = models.ForeignKey(
        "jobs.OutputConnection", on_delete=models.CASCADE, db_index=False, related_name="verifications"
    )
    compared_at = models.DateTimeField(null=True)
    buckets: "ArrayField[list[int] | None, list[int] | None]" = ArrayField(models.SmallIntegerField(), null=True)
    most = models.IntegerField(_("most repairs"), null=True)
    allows_removals = models.BooleanField(default=False, db_default=False)
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
        """Return the number of documents for which the output and the record differ."""
        return self.missing + self.ghost + self.stale


class OutputFault(models.Model):
    """
    A document that a verification found. `result` is the result of its repair, and "" if no repair was tried.

    `identifier` is empty if neither the queue nor the output knows the identifier of the document.
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


class ArchiveVerification(Verification):
    """
    One comparison of the files of all archives, and of their copies, with their rows.

    `sample` is the share of the files in percent, null for all. `host` is the machine whose local copies are compared.
    The local copies of the `lost_machine` count as deleted.
    `cursor` is the last file that was compared. The cursor and the counts are written in the transaction of each file.
    """

    MOVING = (
        *(
            "cursor",
            "ended_at",
            "files",
            "records",
            "deleted",
            "truncated",
            "damaged",
            "foreign",
            "no_record",
            "no_row",
        ),
        *("lost", "skipped", "repaired"),
    )

    sample = models.FloatField(null=True)
    host = models.TextField(default="", db_default="")
    lost_machine = models.TextField(default="", db_default="")
    cursor = models.BigIntegerField(default=0, db_default=0)
    files = models.BigIntegerField(default=0, db_default=0)
    records = models.BigIntegerField(default=0, db_default=0)
    deleted = models.BigIntegerField(_("copies that are missing"), default=0, db_default=0)
    truncated = models.BigIntegerField(_("copies that end early"), default=0, db_default=0)
    damaged = models.BigIntegerField(_("copies with other content"), default=0, db_default=0)
    foreign = models.BigIntegerField(_("files without a row"), default=0, db_default=0)
    no_record = models.BigIntegerField(_("rows without a record"), default=0, db_default=0)
    no_row = models.BigIntegerField(_("files with records without rows"), default=0, db_default=0)
    lost = models.BigIntegerField(_("documents whose body is lost"), default=0, db_default=0)
    skipped = models.BigIntegerField(_("copies that could not be reached"), default=0, db_default=0)
    repaired = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        ordering = ("-id",)
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"verification {self.pk} of the archives"

    @property
    def faults(self) -> int:
        """Return the number of faults that were found."""
        return sum(getattr(self, kind.value) for kind in ArchiveFault.Kind)


class ArchiveFault(models.Model):
    """
    A fault of an archive. `place` is a store, or a machine with its directory. `result` is the result of its repair.

    `hash`, `job_id` and `identifier` name a document if the fault is about one.
    """

    class Kind(models.TextChoices):
        DELETED = "deleted", _("copy deleted")
        TRUNCATED = "truncated", _("copy truncated")
        DAMAGED = "damaged", _("copy damaged")
        FOREIGN = "foreign", _("foreign file")
        NO_RECORD = "no_record", _("row without a record")
        NO_ROW = "no_row", _("records without rows")
        LOST = "lost", _("document without a body")

    verification = models.ForeignKey(
        ArchiveVerification, on_delete=models.CASCADE, db_index=False, related_name="found"
    )
    kind = models.CharField(max_length=10, choices=Kind.choices)
    path = models.TextField()
    place = models.TextField(default="")
    job_id = models.BigIntegerField(null=True)
    hash: "models.UUIDField[uuid.UUID | None, uuid.UUID | None]" = models.UUIDField(null=True)
    identifier = models.TextField(default="")
    result = models.TextField(default="", db_default="")

    class Meta:
        ordering = ("id",)
        default_permissions = ("view",)
        indexes = (models.Index(fields=["verification", "id"], name="fault_of_verification"),)

    def __str__(self) -> str:
        return " ".join(part for part in (self.path, self.place, self.identifier) if part)
