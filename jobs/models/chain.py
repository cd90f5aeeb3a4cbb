"""Chains of jobs: the job that starts after another job has ended well, and pending starts."""

from django.db import models
from django.db.models.functions import Now

from jobs.lifecycle.job import Overlap


class JobChain(models.Model):
    """The job `successor` starts whenever the job `predecessor` has ended well."""

    predecessor = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="next_in_chain")
    successor = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="previous_in_chain")
    overlap = models.CharField(
        max_length=10,
        choices=[(overlap.value, overlap.value) for overlap in Overlap],
        default=Overlap.SKIP,
        db_default=Overlap.SKIP.value,
    )
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.CharField(max_length=200)

    class Meta:
        ordering = ("id",)
        default_permissions = ()
        constraints = (
            models.UniqueConstraint(fields=["predecessor", "successor"], name="one_chain_a_pair_of_jobs"),
            models.CheckConstraint(
                condition=~models.Q(predecessor=models.F("successor")), name="job_does_not_follow_itself"
            ),
        )

    def __str__(self) -> str:
        return f"job {self.predecessor_id} → job {self.successor_id}"


class ChainedStart(models.Model):
    """
    A pending start of a successor, after the end of its predecessor.

    The row is inserted in the transaction that ends the predecessor, and deleted in the transaction that starts the
    successor. So each end leads to one start, whichever process is killed. `waits` is true while the start waits for
    the end of the successor's present run.
    """

    successor = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, related_name="+")
    # No constraint in the database, because the predecessor may be deleted before its successor has started.
    predecessor_id = models.BigIntegerField()
    predecessor_name = models.CharField(max_length=200)
    run_no = models.PositiveIntegerField()
    overlap = models.CharField(max_length=10)
    at = models.DateTimeField()
    waits = models.BooleanField(default=False, db_default=False)

    class Meta:
        ordering = ("id",)
        default_permissions = ()
        constraints = (
            models.UniqueConstraint(fields=["predecessor_id", "run_no", "successor"], name="one_start_an_end_of_a_run"),
        )

    def __str__(self) -> str:
        return f"start of job {self.successor_id} after job {self.predecessor_id}"
