"""The table of exports."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class Export(models.Model):
    """
    One export: its filter, its progress and its file.

    `task` is the number of its background task, whose row may no longer exist. `parts` are the files that
    are complete, and `cursor` is the key after their last row. `attempt` is the fence: an older attempt changes
    nothing. The row is open until it has `ended_at`. It then has a `file`, or a `problem`.
    """

    class Format(models.TextChoices):
        CSV = "csv", "CSV"
        JSON_LINES = "jsonl", "JSON lines"
        PARQUET = "parquet", "Parquet"

    task = models.BigIntegerField(unique=True)
    what = models.TextField()
    format = models.TextField(choices=Format.choices)
    filter = models.JSONField(default=dict)
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.TextField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(_("when the file is deleted"), null=True)
    attempt = models.IntegerField(default=0, db_default=0)
    cursor = models.JSONField(null=True)
    is_read = models.BooleanField(_("all rows are in the parts"), default=False, db_default=False)
    parts = ArrayField(models.TextField(), default=list, db_default=[])
    total = models.BigIntegerField(_("rows at the start, if they were counted"), null=True)
    rows = models.BigIntegerField(default=0, db_default=0)
    bytes = models.BigIntegerField(default=0, db_default=0)
    host = models.TextField(_("machine that wrote the file"), default="", db_default="")
    file = models.TextField(default="", db_default="")
    problem = models.TextField(_("why there is no file"), default="", db_default="")

    class Meta:
        ordering = ("-id",)
        default_permissions = ("add", "delete", "view")
        indexes = (models.Index(fields=["expires_at"], name="export_expires"),)

    def __str__(self) -> str:
        return f"{self.pk} ({self.what}, {self.format})"
