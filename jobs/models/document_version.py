"""Kept versions of documents: earlier answers with their headers and texts."""

from django.db import models


class DocumentVersion(models.Model):
    """
    An answer that differed from the one before it, by its code or its text. A job keeps the newest ones of a document.

    `headers` are lines `name: value`. `text` is compressed by zlib, and empty if the answer had no text. `length` is its
    number of characters, `is_cut` if there were more. `digest` is that of the whole text. `access` is the JSON of the
    document's access. The flush writes this table under the lock of the document.
    """

    pk = models.CompositePrimaryKey("hash", "job_id", "number")
    hash = models.UUIDField()
    job = models.ForeignKey(
        "jobs.Job", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    number = models.IntegerField()
    fetched_at = models.DateTimeField()
    run_no = models.IntegerField()
    code = models.CharField(max_length=30)
    headers = models.TextField()
    text = models.BinaryField()
    length = models.IntegerField()
    is_cut = models.BooleanField()
    digest = models.UUIDField()
    access = models.JSONField()

    class Meta:
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"version {self.number}"
