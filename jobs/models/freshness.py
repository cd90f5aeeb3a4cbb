"""Change rates of documents, and plans of the next looks at them. Only jobs with freshness goals have them."""

from django.db import models
from django.db.models import F, Q


class ChangeRate(models.Model):
    """
    The evidence for the change rate of one document (`jobs.freshness.rates`), and its last look.

    The flush writes the row, which is deleted with its document. Hashes are evenly spread, so the rows after a random
    hash are a fair sample of their lane.
    """

    pk = models.CompositePrimaryKey("lane_id", "hash")
    lane = models.ForeignKey(
        "jobs.Lane", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    hash = models.UUIDField()
    looked_at = models.DateTimeField()
    evidence = models.BinaryField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.hash)


class LanePlan(models.Model):
    """
    The plan of one lane (`jobs.freshness.pricing`), made by the main manager from a sample of its documents.

    `goals` identifies the goals of the job for which the plan was made. The host allows `allows` requests per second
    (null: any number), and the goals of all jobs need `host_needs` there. Documents without a goal need `host_others`,
    which are not part of `allows`. `lacks` is the missing number of requests per second if the host is too slow.
    """

    # A plan outlives its lane until the main manager has subtracted it from the totals.
    lane = models.OneToOneField(
        "jobs.Lane", on_delete=models.DO_NOTHING, db_constraint=False, primary_key=True, related_name="+"
    )
    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, db_index=False, related_name="+")
    goals = models.CharField(max_length=16, default="", db_default="")
    plan = models.JSONField(default=dict, db_default=models.Value({}, models.JSONField()))
    allows = models.FloatField(null=True)
    host_needs = models.FloatField(default=0.0, db_default=0.0)
    host_others = models.FloatField(default=0.0, db_default=0.0)
    lacks = models.FloatField(default=0.0, db_default=0.0)
    since = models.DateTimeField()
    priced_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        indexes = (
            models.Index(fields=["due_at"], name="lane_plan_due"),
            models.Index(F("job_id"), F("lacks").desc(), name="lane_plan_lacks", condition=Q(lacks__gt=0)),
            models.Index(fields=["job"], name="lane_plan_of_job"),
        )

    def __str__(self) -> str:
        return str(self.lane_id)


class GoalTotal(models.Model):
    """
    The sums for a goal of a job over the plans of all lanes. Each change of a plan also changes these sums.

    `fresh` and `expected` are numbers of documents, `needs` and `gets` looks per second.
    """

    pk = models.CompositePrimaryKey("job_id", "goals", "number")
    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, db_index=False, related_name="+")
    goals = models.CharField(max_length=16)
    number = models.SmallIntegerField()
    documents = models.FloatField(default=0.0, db_default=0.0)
    fresh = models.FloatField(default=0.0, db_default=0.0)
    expected = models.FloatField(default=0.0, db_default=0.0)
    needs = models.FloatField(default=0.0, db_default=0.0)
    gets = models.FloatField(default=0.0, db_default=0.0)
    measured_at = models.DateTimeField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.job_id} {self.number}"
