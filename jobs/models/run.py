"""The runs of jobs."""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models

from jobs.lifecycle.job import RunEnd


class Run(models.Model):
    """
    One run of a job. `jobs.state.runs` writes it at the start and at the end.

    The counts are those of the end: later runs move the documents. They are 0 while the run lasts.
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

    class Meta:
        ordering = ("-started_at", "-id")
        constraints = (models.UniqueConstraint(fields=["job", "run_no"], name="one_run_a_job_and_number"),)
        indexes = (
            models.Index(fields=["-started_at", "-id"], name="run_newest"),
            # A list of runs with a rare end; a run that lasts has none.
            models.Index(fields=["run_end", "-started_at", "-id"], name="run_by_end"),
        )

    def __str__(self) -> str:
        return f"run {self.run_no} of {self.job_id}"


class RunSample(models.Model):
    """
    Documents of a job at the end of a run, in columns, by hash: those with the lowest hashes, so all runs have the same.

    It `is_whole` if it has all documents of the job. `outcomes` and `codes` are the last results then. `versions` are
    short hashes of the versions, 0 without a version. `answer_ms` are durations of requests of this run, null without one.
    Identifiers may be cut. `jobs.state.run_samples` writes it.
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
