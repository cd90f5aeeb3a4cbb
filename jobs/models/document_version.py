"""Kept versions of documents: earlier answers with their headers and texts."""

from django.db import models


class DocumentVersion(models.Model):
    """
    An answer whose code or text differed from the answer before it. A job keeps the newest of these versions for each
    document.

    `headers` are lines `name: value`. `text` is compressed by zlib, and empty if the answer had no text. `length` is
    the number of its characters; `is_cut` is true if the text was longer. `digest` is the digest of the whole text.
    `access` is the JSON of the document's access. The flush writes this table under the lock of the document.
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
