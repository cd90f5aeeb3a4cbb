"""The history: what was done, when, how long it took and how it ended."""

from django.db import models


class Activity(models.Model):
    """
    One thing that was done for a job: a request, a document given to an output or taken out of it, a
    turn of the job itself.

    The table is partitioned by day of `started_at` (UTC; `jobs.duties.history` makes and drops the days)
    and written by the flush, so nothing here is enforced: no foreign keys, no unique index. `id` only
    tells rows of one instant apart. `entity` is what it was done to, in words of the source; `seconds` is
    how long it took, null where nobody measured. `output` is set where `activity` is something that an
    output did; its name is not stored with each row.
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

    class Meta:
        verbose_name_plural = "activities"
        # One index, and its entries come in the order of the table: the reports read a stretch of time.
        indexes = (models.Index(fields=["repository", "started_at"], name="activity_of_repository"),)

    def __str__(self) -> str:
        return f"{self.activity}: {self.entity}"
