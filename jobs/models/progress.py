"""The progress of the crawl and the waiting time of documents by cause, in steps of time."""

from django.db import models


class Progress(models.Model):
    """
    The progress of all jobs (0), or of one job, in one step of time.

    `step` is its length in seconds, and `at` its start. `documents` ended, `bytes` were read and `requests` were made
    in it. The other columns count the documents of running jobs at its last sample, and are null without one.
    """

    job_id = models.BigIntegerField()
    step = models.PositiveSmallIntegerField()
    at = models.DateTimeField()
    documents = models.BigIntegerField(default=0, db_default=0)
    bytes = models.BigIntegerField(default=0, db_default=0)
    requests = models.BigIntegerField(default=0, db_default=0)
    waiting = models.BigIntegerField(null=True)
    active = models.BigIntegerField(null=True)
    indexed = models.BigIntegerField(null=True)
    unchanged = models.BigIntegerField(null=True)
    failed = models.BigIntegerField(null=True)
    excluded = models.BigIntegerField(null=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["job_id", "step", "at"], name="one_progress_a_step"),)
        indexes = (models.Index(fields=["step", "at"], name="progress_oldest"),)

    def __str__(self) -> str:
        return f"{self.at:%F %T} + {self.step} s"


class Charge(models.Model):
    """The document-seconds that one cause accounts for, in one step of time: of all jobs, of a job, or of a host."""

    class Subject(models.IntegerChoices):
        ALL = 0
        JOB = 1
        HOST = 2

    subject = models.PositiveSmallIntegerField(choices=Subject)
    # The id of the job or host; 0 for all jobs.
    subject_id = models.BigIntegerField()
    step = models.PositiveSmallIntegerField()
    at = models.DateTimeField()
    # A cause of verdicts (`jobs.verdicts.causes`).
    cause = models.CharField(max_length=20)
    seconds = models.FloatField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["subject", "subject_id", "step", "at", "cause"], name="one_charge_a_step"),
        )
        indexes = (models.Index(fields=["step", "at"], name="charge_oldest"),)

    def __str__(self) -> str:
        return f"{self.cause} at {self.at:%F %T} + {self.step} s"
