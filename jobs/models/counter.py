"""Counts of documents: each change appends a delta, and the main manager folds the deltas."""

from django.db import models


class Counted(models.Model):
    """
    The columns of a count: a number of documents or events of one run of a job, and the kind that is counted.

    `measure` is 'stage' for documents that are at (`stage`, `outcome`, `code`) in a run. 'deleted' and 'bytes' count
    events of a run. 'offered' and 'requests' count events of a whole run: they belong to no lane (`lane_id` 0).
    'differs' counts documents whose result was `stage` before the run and is `outcome` now: the fold adds these to
    `RunDifference`.
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
    """The columns of a count of one lane."""

    lane_id = models.BigIntegerField()

    class Meta:
        abstract = True


class CounterDelta(CountedOfLane):
    """
    A change of one count by one transaction. Transactions only insert rows, so that they do not wait for each other,
    and the main manager deletes the rows when it folds them.

    `sample` is one of the counted documents if they have just ended in failure; otherwise null. `example` is the
    identifier of one of the counted documents if they differ from the run before.
    """

    sample = models.UUIDField(null=True)
    example = models.TextField(default="", db_default="")

    class Meta:
        indexes = (models.Index(fields=["job_id", "id"], name="counter_delta_job"),)


class Counter(CountedOfLane):
    """
    A count of one lane: the sum of the folded deltas. Together with the deltas that are not folded yet, the count is
    exact.
    """

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["job_id", "run_no", "lane_id", "measure", "stage", "outcome", "code"], name="one_counter_a_key"
            ),
        )


class JobCounter(Counted):
    """
    A count of a whole job: the sum of the counters of all its lanes, which the same fold writes. So the counts of a job
    are few rows, also for a job with very many lanes.
    """

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["job_id", "run_no", "measure", "stage", "outcome", "code"], name="one_counter_a_key_and_job"
            ),
        )
        indexes = (models.Index(fields=["stage", "outcome", "code"], name="job_counter_of_endings"),)
