"""The history: activities with their start, duration and result."""

from django.db import models


class Activity(models.Model):
    """
    One activity for a job: a request, a document written to or removed from an output, a transition of the job itself.

    The table is partitioned by day of `started_at` (UTC). `jobs.duties.history` creates and drops the days. The table
    has no foreign keys and no unique index, because the flush, the hot path, writes it. `id` only distinguishes rows of
    one instant. `entity` names the object in terms of the source. `seconds` is the duration, null if it was not
    measured. `output` is set for an activity of an output, whose name is not stored with each row. `node` is the name
    of the worker that did it, and empty for an activity that no worker did.
    """

    started_at = models.DateTimeField()
    seconds = models.FloatField(null=True)
    job = models.ForeignKey(
        "jobs.Job", null=True, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    repository = models.ForeignKey(
        "jobs.RepositoryConnection",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    output = models.ForeignKey(
        "jobs.OutputConnection",
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )
    activity = models.TextField()
    entity = models.TextField()
    bytes = models.BigIntegerField(null=True)
    result_code = models.TextField(default="", db_default="")
    result_description = models.TextField(default="", db_default="")
    node = models.TextField(default="", db_default="")

    class Meta:
        verbose_name_plural = "activities"
        # Only one index, in the order of time, because all reports read an interval of time.
        indexes = (models.Index(fields=["repository", "started_at"], name="activity_of_repository"),)

    def __str__(self) -> str:
        return f"{self.activity}: {self.entity}"
