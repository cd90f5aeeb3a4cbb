"""The runs of jobs."""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models

from jobs.lifecycle.job import RunEnd


class Run(models.Model):
    """
    One run of a job. `jobs.state.runs` writes it at the start and at the end.

    The counts are from the end of the run, because later runs move the documents. They are 0 while the run lasts.
    """

    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="runs")
    run_no = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    started_by = models.CharField(max_length=200, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    run_end = models.CharField(max_length=20, choices=[(end.value, end.value) for end in RunEnd], blank=True)
    # The reason of its end, in words.
    reason = models.TextField(blank=True)
    indexed = models.PositiveBigIntegerField(default=0, db_default=0)
    unchanged = models.PositiveBigIntegerField(default=0, db_default=0)
    failed = models.PositiveBigIntegerField(default=0, db_default=0)
    excluded = models.PositiveBigIntegerField(default=0, db_default=0)
    deleted = models.PositiveBigIntegerField(default=0, db_default=0)
    bytes = models.PositiveBigIntegerField(default=0, db_default=0)
    # True if documents that differ from the run before are counted (`RunDifference`).
    has_differences = models.BooleanField(default=False, db_default=False)

    class Meta:
        ordering = ("-started_at", "-id")
        constraints = (models.UniqueConstraint(fields=["job", "run_no"], name="one_run_a_job_and_number"),)
        indexes = (
            models.Index(fields=["-started_at", "-id"], name="run_newest"),
            # An index for lists of runs that ended in one way, such as an error, which may be rare. A run in progress
            # has no end.
            models.Index(fields=["run_end", "-started_at", "-id"], name="run_by_end"),
            models.Index(
                fields=["ended_at"],
                name="run_failed",
                condition=models.Q(run_end=RunEnd.ERROR) | models.Q(failed__gt=0, indexed=0, unchanged=0, excluded=0),
            ),
        )

    def __str__(self) -> str:
        return f"run {self.run_no} of {self.job_id}"


class RunSample(models.Model):
    """
    A sample of the documents of a job at the end of a run. Each column is an array, sorted by hash.

    The sample has the documents with the lowest hashes, so the samples of all runs have the same documents. `is_whole`
    is true if it has all documents of the job. `outcomes` and `codes` are the last results of the documents at that
    time. `versions` are short hashes of their versions, 0 without a version. `answer_ms` are durations of requests of
    this run, null without one. Identifiers may be cut. `jobs.state.run_samples` writes it.
    """

    run = models.OneToOneField(Run, primary_key=True, on_delete=models.CASCADE, related_name="sample")
    is_whole = models.BooleanField()
    hashes: "ArrayField[list[uuid.UUID], list[uuid.UUID]]" = ArrayField(models.UUIDField())
    identifiers: "ArrayField[list[str], list[str]]" = ArrayField(models.TextField())
    outcomes: "ArrayField[list[int], list[int]]" = ArrayField(models.SmallIntegerField())
    codes: "ArrayField[list[str], list[str]]" = ArrayField(models.TextField())
    versions: "ArrayField[list[int], list[int]]" = ArrayField(models.IntegerField())
    answer_ms: "ArrayField[list[int | None], list[int | None]]" = ArrayField(models.IntegerField(null=True))

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"sample of run {self.run_id}"


class RunDifference(models.Model):
    """
    The number of documents of a job whose result in a run differs from their result before the run, with the first of
    these documents.

    `before` and `after` are results (`jobs.lifecycle.endings`), and `code` is the code of the second result. `bin_id`
    is 0 for new and changed documents, and for hosts above the limit of rows. The fold of counts writes it, so it may
    be older or younger than the row of its run.
    """

    job_id = models.BigIntegerField()
    run_no = models.IntegerField()
    before = models.SmallIntegerField()
    after = models.SmallIntegerField()
    code = models.CharField(max_length=30, blank=True)
    bin_id = models.BigIntegerField()
    amount = models.BigIntegerField()
    examples: "ArrayField[list[str], list[str]]" = ArrayField(models.TextField())

    class Meta:
        default_permissions = ()
        constraints = (
            models.UniqueConstraint(
                fields=["job_id", "run_no", "before", "after", "code", "bin_id"], name="one_difference_a_key"
            ),
        )

    def __str__(self) -> str:
        return f"{self.amount} of run {self.run_no} of {self.job_id}"
