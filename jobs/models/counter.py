"""Counts of documents: appended as deltas by who moves them, folded by the main."""

from django.db import models


class Counted(models.Model):
    """
    So many documents of a job are (or came to be) thus.

    `measure` is 'stage' for documents that stand at (`stage`, `outcome`, `code`) in a run; 'deleted'
    and 'bytes' count events of a run, and 'offered' those of no lane (0).
    """

    job_id = models.BigIntegerField()
    run_no = models.IntegerField()
    measure = models.CharField(max_length=10)
    stage = models.SmallIntegerField(default=0)
    outcome = models.SmallIntegerField(default=0)
    code = models.CharField(max_length=30, default="")
    amount = models.BigIntegerField()

    class Meta:
        abstract = True


class CountedOfLane(Counted):
    """The same of one of its lanes."""

    lane_id = models.BigIntegerField()

    class Meta:
        abstract = True


class CounterDelta(CountedOfLane):
    """What one transaction changed. Insert-only, so that no row is hot."""

    class Meta:
        indexes = (models.Index(fields=["job_id", "id"], name="counter_delta_job"),)


class Counter(CountedOfLane):
    """What the folded deltas add up to; exact together with the deltas that are not folded yet."""

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["job_id", "run_no", "lane_id", "measure", "stage", "outcome", "code"], name="one_counter_a_key"
            ),
        )


class JobCounter(Counted):
    """
    What the counters of all lanes of a job add up to, so that who wants to know of a job reads a few rows, however many
    lanes it has. Written with them.
    """

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["job_id", "run_no", "measure", "stage", "outcome", "code"], name="one_counter_a_key_and_job"
            ),
        )
        indexes = (models.Index(fields=["stage", "outcome", "code"], name="job_counter_of_endings"),)
