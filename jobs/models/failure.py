"""Failures: the documents of a job that ended in failure, by host and cause."""

from django.db import models


class FailureGroup(models.Model):
    """
    The failures of a job at one host for one cause, since `first_at`.

    `times` counts failures, so a document that fails in several runs counts once for each run. `sample` is the last
    document. The main manager writes these rows when it folds counts, so a document that does not fail costs nothing.
    """

    job = models.ForeignKey(
        "jobs.Job", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    bin = models.ForeignKey("jobs.Bin", on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    code = models.CharField(max_length=30)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    times = models.BigIntegerField()
    sample = models.UUIDField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["job", "bin", "code"], name="one_failure_group_a_cause"),)
        indexes = (
            models.Index(fields=["-last_at", "-id"], name="failure_group_newest"),
            models.Index(fields=["job", "-last_at", "-id"], name="failure_group_of_job"),
            models.Index(fields=["code", "-last_at", "-id"], name="failure_group_of_code"),
        )

    def __str__(self) -> str:
        return f"{self.code} of job {self.job_id} at {self.bin_id}"


class FailureHour(models.Model):
    """The number of failures of a group in one hour, from which pages draw the failures over time."""

    pk = models.CompositePrimaryKey("group_id", "hour")
    group = models.ForeignKey(
        FailureGroup, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    hour = models.DateTimeField(db_index=True)
    times = models.BigIntegerField()
