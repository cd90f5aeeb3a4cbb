"""Counts of documents: each change appends a delta, and the main manager folds the deltas."""

from django.db import models


class Counted(models.Model):
    """
    A number of documents of a job.

    `measure` is 'stage' for documents that are at (`stage`, `outcome`, `code`) in a run. 'deleted' and 'bytes' count
    events of a run. 'offered' and 'requests' count events that belong to no lane (0). 'differs' counts documents whose
    result was `stage` before the run and is `outcome` now: the fold adds these to `RunDifference`.
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
    """A number of documents of one lane of a job."""

    lane_id = models.BigIntegerField()

    class Meta:
        abstract = True


class CounterDelta(CountedOfLane):
    """
    The changes of one transaction. Rows are only inserted, so that transactions do not wait for each other.

    `sample` is one of the counted documents if they have just ended in failure; otherwise null. `example` is the
    identifier of one of the counted documents if they differ from the run before.
    """

    sample = models.UUIDField(null=True)
    example = models.TextField(default="", db_default="")

    class Meta:
        indexes = (models.Index(fields=["job_id", "id"], name="counter_delta_job"),)


class Counter(CountedOfLane):
    """The sum of the folded deltas; exact together with the deltas that are not folded yet."""

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["job_id", "run_no", "lane_id", "measure", "stage", "outcome", "code"], name="one_counter_a_key"
            ),
        )


class JobCounter(Counted):
    """
    The sum of the counters of all lanes of a job, written with them. So the counts of a job have few rows, also for a
    job with very many lanes.
    """

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["job_id", "run_no", "measure", "stage", "outcome", "code"], name="one_counter_a_key_and_job"
            ),
        )
        indexes = (models.Index(fields=["stage", "outcome", "code"], name="job_counter_of_endings"),)
