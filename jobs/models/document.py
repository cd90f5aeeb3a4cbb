"""Documents: one row per job and identifier, and their links."""

import uuid
from typing import Final

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from jobs.lifecycle.document import Action, Stage, manifoldcf_name
from jobs.lifecycle.job import Kind, Phase, Scan


class Outcome(models.IntegerChoices):
    """The result class of a document in its run. A job's counts use these classes."""

    NONE = 0, "not ended"
    INDEXED = 1, "indexed"
    UNCHANGED = 2, "unchanged"
    FAILED = 3, "failed"
    EXCLUDED = 4, "excluded"


class QueueItem(models.Model):
    """
    A document of a job, found under the 128-bit hash of its identifier.

    `seq` is set only when the document is due; it consists of a class and a number (`jobs.queue.sql.order`). `batch` is
    the batch that has claimed it. `version` and `validators` describe the content of the outputs. `admitted_run` is the
    run in which it got its place in the job's budget. `check_time` is the time at which it is due again: the retry of a
    pending document, or the recrawl of a done document of a continuous job. `changed_at` is kept only in continuous
    jobs. Foreign keys of this table are not enforced by the database: otherwise each row that a flush writes would cost
    a look-up and a lock.
    """

    pk = models.CompositePrimaryKey("hash", "job_id")
    hash = models.UUIDField()
    job = models.ForeignKey(
        "jobs.Job", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    lane = models.ForeignKey(
        "jobs.Lane", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    identifier = models.TextField()
    stage = models.SmallIntegerField(choices=[(s.value, s.name.lower()) for s in Stage], default=Stage.PENDING)
    indexed_before = models.BooleanField(default=False)
    rescan = models.BooleanField(default=False)
    run_no = models.IntegerField()
    seq = models.BigIntegerField(null=True)
    check_time = models.DateTimeField(null=True)
    action = models.SmallIntegerField(choices=[(a.value, a.name.lower()) for a in Action], default=Action.PROCESS)
    batch = models.ForeignKey(
        "jobs.Batch", null=True, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    version = models.TextField(default="", db_default="")
    validators = models.TextField(default="", db_default="")
    depth = models.IntegerField(default=0)
    redirects = models.SmallIntegerField(default=0, db_default=0)
    outcome = models.SmallIntegerField(choices=Outcome.choices, default=Outcome.NONE, db_default=0)
    result_code = models.CharField(max_length=30, default="", db_default="")
    failures = models.SmallIntegerField(default=0, db_default=0)
    failing_since = models.DateTimeField(null=True)
    # Limits of retries, if the connector gave any. These apply as long as the document fails.
    most_failures = models.IntegerField(null=True)
    failing_until = models.DateTimeField(null=True)
    # Number of failures in a row, by the cause whose limit they count for. Valid only while `failures` is above 0.
    failures_by_cause = models.JSONField(null=True)
    losses = models.SmallIntegerField(default=0, db_default=0)
    admitted_run = models.IntegerField(default=0, db_default=0)
    fetched_at = models.DateTimeField(null=True)
    # Duration of its last request, until the whole answer was read (ms). Null: no request was recorded.
    response_ms = models.IntegerField(null=True)
    changed_at = models.DateTimeField(null=True)
    # The last results of the document in one number: see `jobs.lifecycle.endings`.
    endings = models.IntegerField(default=0, db_default=0)
    # The hash of the document in which this document was first found, or its own hash if a seed named it. Null: not
    # recorded.
    found_on = models.UUIDField(null=True)

    class Meta:
        verbose_name = "document"
        indexes = (
            models.Index(
                fields=["lane", "run_no", "seq"],
                name="document_due",
                condition=Q(stage=Stage.PENDING, seq__isnull=False),
            ),
            models.Index(fields=["lane", "run_no"], name="document_of_run"),
            models.Index(
                fields=["lane", "check_time"],
                name="document_waiting",
                condition=Q(check_time__isnull=False),
            ),
            models.Index(
                fields=["lane", "run_no"],
                name="document_outside",
                condition=Q(stage=Stage.HOPCOUNT_REMOVED, indexed_before=True),
            ),
            models.Index(fields=["batch"], name="document_claimed", condition=Q(batch__isnull=False)),
            # An index of failed and excluded documents, in the order of keys. Operators search for these documents,
            # which are usually few.
            models.Index(
                fields=["hash", "job"],
                name="document_failed_or_excluded",
                condition=Q(outcome__in=[Outcome.FAILED, Outcome.EXCLUDED]),
            ),
        )
        constraints = (
            models.CheckConstraint(
                name="document_is_claimed_exactly_when_in_a_batch",
                condition=Q(stage__in=[Stage.ACTIVE, Stage.BEING_CLEANED, Stage.BEING_DELETED], batch__isnull=False)
                | Q(stage__in=[Stage.PENDING, Stage.DONE, Stage.HOPCOUNT_REMOVED], batch__isnull=True),
            ),
        )

    def __str__(self) -> str:
        return self.identifier

    @property
    def manifoldcf_status(self) -> str:
        """Return ManifoldCF's name of the document's state, '' while no document references it in this run."""
        job = self.job
        return manifoldcf_name(
            stage=Stage(self.stage),
            indexed_before=self.indexed_before,
            rescan=self.rescan,
            of_this_run=self.run_no == job.run_no,
            scan=Scan(job.scan),
            deleting=job.phase == Phase.DELETING,
            recurs=job.kind == Kind.CONTINUOUS,
        )


class OutLinks(models.Model):
    """
    The links of a document, as the hashes of their targets. After an outcome without a body, these links are used
    again.
    """

    pk = models.CompositePrimaryKey("hash", "job_id")
    hash = models.UUIDField()
    job = models.ForeignKey(
        "jobs.Job", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    targets: "ArrayField[list[uuid.UUID], list[uuid.UUID]]" = ArrayField(models.UUIDField())
    # True if the only target is that of a redirect, which has the same depth as its source.
    is_redirect = models.BooleanField(default=False)
    # Targets that the last change of the links removed; null means that it removed none. They explain why documents are
    # not reached.
    lost: "ArrayField[list[uuid.UUID] | None, list[uuid.UUID] | None]" = ArrayField(models.UUIDField(), null=True)
    # True if the document no longer names its earlier targets, or has become a redirect. `lost` keeps these targets
    # until they are removed.
    is_replaced = models.BooleanField(default=False, db_default=False)

    class Meta:
        indexes = (models.Index(fields=["job"], name="links_were_lost", condition=models.Q(lost__isnull=False)),)


# The `read_version` of a document that an output may lack: a removal was written to the output, and its transaction may
# not have committed.
DOUBTED: Final = "?"


class IndexedDocument(models.Model):
    """
    A document that an output holds, or a part of a document, with the version that the output holds.

    `read_version` is the version of the document in the queue from which a pipeline made this one; '' without a
    pipeline, because both are the same then. It is DOUBTED if the output may lack the document. A part has the hash of
    its own address. Its `parent` is the document, and `part` is its path in the document. A part has no row in the
    queue, and leaves the output with the record of its document.
    """

    pk = models.CompositePrimaryKey("output_id", "hash")
    output = models.ForeignKey(
        "jobs.OutputConnection", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    hash = models.UUIDField()
    version = models.TextField()
    indexed_at = models.DateTimeField()
    read_version = models.TextField(default="", db_default="")
    parent = models.UUIDField(null=True)
    part = models.TextField(default="", db_default="")

    class Meta:
        indexes = (models.Index(fields=["parent", "output"], name="record_of_part", condition=Q(parent__isnull=False)),)


class PipelineRefusal(models.Model):
    """
    A document that a stage of its job's pipeline does not pass on to this output, with the reason.

    `version` is the version of the document in the queue; '' if the stage failed, so that the next run reads the
    document without conditions.
    """

    pk = models.CompositePrimaryKey("job_id", "hash", "output_id")
    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, db_index=False, related_name="+")
    hash = models.UUIDField()
    output = models.ForeignKey("jobs.OutputConnection", on_delete=models.CASCADE, related_name="+")
    version = models.TextField()
    stage = models.CharField(max_length=100)
    code = models.CharField(max_length=100)
    reason = models.TextField()
    refused_at = models.DateTimeField()
