"""
Partitions: the facts and references that databases exchange.

PostgreSQL's logical replication copies the rows of `PartitionFact` and `ForeignReference` to the partition that they
name. Each table has rows of this partition and received rows; `source` distinguishes them. Only inserts are copied: a
deletion is local.
"""

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now


class PartitionFact(models.Model):
    """
    A fact that a partition sends to another one, such as the wanted state of a run.

    The newest row of a source and key counts. `number` grows with each fact of a source.
    """

    pk = models.CompositePrimaryKey("source", "number")
    source = models.CharField(max_length=31)
    # Given by the database: an identity of the table (jobs/migrations).
    number = models.BigIntegerField()
    target = models.CharField(max_length=31)
    key = models.TextField()
    body = models.JSONField()
    sent_at = models.DateTimeField(db_default=Now())

    class Meta:
        default_permissions = ("view",)
        indexes = (models.Index(fields=["source", "target", "key", "-number"], name="fact_newest"),)

    def __str__(self) -> str:
        return f"{self.key} for {self.target}"


class PartitionedJob(models.Model):
    """
    A job of all partitions, and the state of its present run as this partition knows it.

    `number` is the job's id in the control partition. A partition may end its run only when the control partition
    allows it: `may_finish_run` is the last run that may end. In the control partition, `round_no` is the last round of
    questions about the end, and `last_round` has the figures of this round if they may prove the end
    (`jobs.partitions.end_of_run`). `others_ended_run` is the last run that has ended in all other partitions, and
    `ends_at_limit_run` the last run that ended because all partitions together had reached the document limit.

    `removals` are the removals of the last clean-up that the delete guard counted. `decided_run` is the last run that
    the control partition has decided about, and `held_run` the last one whose removals wait for an operator.
    """

    job = models.OneToOneField("jobs.Job", primary_key=True, on_delete=models.CASCADE, related_name="partitioned")
    number = models.BigIntegerField(unique=True)
    may_finish_run = models.PositiveIntegerField(default=0, db_default=0)
    others_ended_run = models.PositiveIntegerField(default=0, db_default=0)
    ends_at_limit_run = models.PositiveIntegerField(default=0, db_default=0)
    removals = models.JSONField(null=True)
    decided_run = models.PositiveIntegerField(default=0, db_default=0)
    held_run = models.PositiveIntegerField(default=0, db_default=0)
    round_no = models.PositiveIntegerField(default=0, db_default=0)
    last_round = models.JSONField(null=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"job {self.job_id}"


def _field_of_edges() -> "ArrayField[Any, Any]":
    """Return a field for pairs of documents, of which the first redirects to the second."""
    return ArrayField(ArrayField(models.UUIDField(), size=2), default=list, db_default=[])


class ForeignLink(models.Model):
    """
    A document of another partition that is the target of links from this partition, with its least depth in the last
    run with these links.

    The row keeps the identifier, because an answer without a body (a 304) does not contain the links again.
    """

    pk = models.CompositePrimaryKey("hash", "job_id")
    hash = models.UUIDField()
    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="+")
    seed = models.ForeignKey(
        "jobs.Seed", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    target = models.CharField(max_length=31)
    identifier = models.TextField()
    bin = models.TextField()
    run_no = models.IntegerField()
    depth = models.IntegerField()
    redirects = models.SmallIntegerField()
    # The document that names it.
    found_on = models.UUIDField()
    # The redirects that the last sent reference to this document had.
    edges = _field_of_edges()

    class Meta:
        default_permissions = ()
        indexes = (models.Index(fields=["job", "run_no"], name="foreign_link_of_run"),)

    def __str__(self) -> str:
        return self.identifier


class ForeignReference(models.Model):
    """
    A reference to a document of another partition. The row stays in the sending database until the run ends, and in the
    receiving database until the reference is applied.

    `job_number` is `PartitionedJob.number`. `seed` is the hash of the first address of the seed (md5): ids of seeds
    differ between partitions.
    """

    pk = models.CompositePrimaryKey("source", "number")
    source = models.CharField(max_length=31)
    # Given by the database: an identity of the table (jobs/migrations).
    number = models.BigIntegerField()
    target = models.CharField(max_length=31)
    job_number = models.BigIntegerField()
    run_no = models.IntegerField()
    hash = models.UUIDField()
    identifier = models.TextField()
    bin = models.TextField()
    seed = models.UUIDField()
    depth = models.IntegerField()
    redirects = models.SmallIntegerField()
    # The document that names it.
    found_on = models.UUIDField()
    tracks_depth = models.BooleanField()
    # The redirects that lead to the document, if it is the target of a redirect.
    edges = _field_of_edges()

    class Meta:
        default_permissions = ()
        indexes = (models.Index(fields=["job_number", "run_no", "target"], name="foreign_reference_of_run"),)

    def __str__(self) -> str:
        return self.identifier


class RedirectEdge(models.Model):
    """A document, here or in another partition, that redirected to another document in a run of several partitions."""

    pk = models.CompositePrimaryKey("hash", "job_id")
    hash = models.UUIDField()
    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="+")
    target = models.UUIDField()
    run_no = models.IntegerField()

    class Meta:
        default_permissions = ()
        indexes = (models.Index(fields=["job", "target"], name="redirect_edge_by_target"),)

    def __str__(self) -> str:
        return str(self.hash)


class PolicyShare(models.Model):
    """
    The share of this partition in the totals of a policy: `parts` of `of`.

    `number` is the control partition's number for this share, and `version` grows with each change. `lowered_at` is set
    while turns of a higher share may still be open.
    """

    policy = models.OneToOneField(
        "jobs.ThrottlePolicy", primary_key=True, on_delete=models.CASCADE, related_name="share"
    )
    parts = models.PositiveIntegerField()
    of = models.PositiveIntegerField()
    number = models.PositiveBigIntegerField(default=0, db_default=0)
    version = models.PositiveBigIntegerField(default=1, db_default=1)
    lowered_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints = (
            models.CheckConstraint(condition=models.Q(of__gte=1, parts__lte=models.F("of")), name="share_is_a_part"),
        )

    def __str__(self) -> str:
        return f"{self.parts} of {self.of}"


class AppliedReferences(models.Model):
    """The number of references of a run that came from a partition and were applied."""

    pk = models.CompositePrimaryKey("job_number", "run_no", "source")
    job_number = models.BigIntegerField()
    run_no = models.IntegerField()
    source = models.CharField(max_length=31)
    amount = models.BigIntegerField()

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.amount} from {self.source}"
