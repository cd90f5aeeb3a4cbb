"""Archives: files of raw exchanges, and the place of each exchange in them."""

import enum

from django.db import models

from jobs.archive.records import Format, RecordKind


class FileState(enum.StrEnum):
    """The state of an archive file: being written, ended, confirmed by its stores, or lost."""

    OPEN = "open"
    COMPLETE = "complete"
    STORED = "stored"
    LOST = "lost"


def _choices(values: type[enum.StrEnum]) -> list[tuple[str, str]]:
    return [(value.value, value.value.replace("_", " ")) for value in values]


class ArchiveFile(models.Model):
    """
    A file of one job that one worker wrote. It outlives the job and the worker, so it has no foreign keys.

    `host` and `root` say where the file was written: `path` is relative to `root`. `length` counts the bytes of complete
    records. `sha256` is known once the file is complete. `stores` are the addresses of the stores that confirmed the
    file, each with the time. `removed_at` is the time at which the local copy was removed.
    """

    job_id = models.BigIntegerField()
    node_id = models.UUIDField()
    host = models.TextField()
    root = models.TextField()
    path = models.TextField()
    format = models.CharField(max_length=10, choices=_choices(Format))
    state = models.CharField(max_length=10, choices=_choices(FileState), default=FileState.OPEN)
    length = models.PositiveBigIntegerField(default=0)
    sha256 = models.CharField(max_length=64, default="", blank=True)
    stores = models.JSONField(default=dict)
    # The last error of an upload, or the reason of the loss.
    problem = models.TextField(default="", blank=True)
    # Number of records in the file that have no row, as a repair noted it. A verification reports only another number
    # as a fault.
    surplus = models.PositiveIntegerField(default=0, db_default=0)
    opened_at = models.DateTimeField()
    completed_at = models.DateTimeField(null=True)
    removed_at = models.DateTimeField(null=True)

    class Meta:
        indexes = (
            models.Index(fields=["job_id", "id"], name="archive_of_job"),
            # An index of the files that a worker of the host still has to end, to upload, or to remove.
            models.Index(
                fields=["host", "id"],
                name="archive_is_local",
                condition=models.Q(removed_at__isnull=True) & ~models.Q(state=FileState.LOST),
            ),
            models.Index(
                fields=["host", "id"], name="archive_is_complete", condition=models.Q(state=FileState.COMPLETE)
            ),
            models.Index(
                fields=["host"],
                name="archive_lacks_checksum",
                condition=models.Q(state=FileState.COMPLETE, sha256=""),
            ),
            models.Index(fields=["id"], name="archive_is_lost", condition=models.Q(state=FileState.LOST)),
        )

    def __str__(self) -> str:
        return self.path


class ArchiveRecord(models.Model):
    """
    The place of an exchange of a document: the response or the revisit, at `offset` in its file.

    `digest` is the digest of the body; for a revisit, it is the digest of the earlier body. `is_lost` is true if no
    copy of the file has the record.
    """

    file = models.ForeignKey(ArchiveFile, on_delete=models.CASCADE, related_name="records", db_index=False)
    job_id = models.BigIntegerField()
    hash = models.UUIDField()
    run_no = models.IntegerField()
    offset = models.BigIntegerField()
    length = models.BigIntegerField()
    kind = models.CharField(max_length=15, choices=_choices(RecordKind))
    status = models.IntegerField()
    digest = models.CharField(max_length=50)
    fetched_at = models.DateTimeField()
    is_lost = models.BooleanField(default=False, db_default=False)

    class Meta:
        indexes = (
            models.Index(fields=["job_id", "hash", "id"], name="record_of_document"),
            models.Index(fields=["id"], name="record_is_lost", condition=models.Q(is_lost=True)),
        )
        constraints = (models.UniqueConstraint(fields=["file", "offset"], name="record_has_its_own_place"),)

    def __str__(self) -> str:
        return f"{self.kind} at {self.offset}"


class FailingStore(models.Model):
    """
    A store of archives that refused the last file of a machine, or did not answer.

    A worker of the machine inserts the row, updates it with each attempt, and deletes it after a success.
    """

    host = models.TextField()
    store = models.TextField()
    failing_since = models.DateTimeField()
    tried_at = models.DateTimeField()
    problem = models.TextField()

    class Meta:
        ordering = ("store", "host")
        default_permissions = ("view",)
        constraints = (models.UniqueConstraint(fields=["store", "host"], name="one_failure_a_store_and_machine"),)

    def __str__(self) -> str:
        return f"{self.store} from {self.host}"
