"""Removals: requests of the delete guard for approval, restorations, and deleted jobs."""

from django.db import models


class RemovalQuestion(models.Model):
    """
    A request of the delete guard for approval: the removals of a run's clean-up, as the guard counted them. Each job
    has one row: its last request.

    `leaving` is the number of documents that would be removed, and `staying` the number that would be kept. `hosts`,
    `parents`, `seeds` and `examples` are bounded lists for the page and the API, with the most documents first. The
    request is open while the job's `guard` waits.
    """

    job = models.OneToOneField("jobs.Job", primary_key=True, on_delete=models.CASCADE, related_name="removal_question")
    run_no = models.PositiveIntegerField()
    asked_at = models.DateTimeField()
    leaving = models.PositiveBigIntegerField()
    staying = models.PositiveBigIntegerField()
    cause = models.TextField()
    hosts = models.JSONField(default=list)
    parents = models.JSONField(default=list)
    seeds = models.JSONField(default=list)
    examples = models.JSONField(default=list)


class Restoration(models.Model):
    """
    An operator's request to restore the removals of a run of a job (`jobs.queue.removing.tombstones`).

    `since` and `cause` narrow it to removals since that time, or for that cause. With `output_id`, the run is 0, and
    the request restores the documents that an operator removed from this output. `restored` counts restored documents.
    `unread` counts documents whose text is no longer kept: the next run reads them again. `refused` is the message of
    an output that did not take a document. In lists of all partitions, `partition` names the other partition that has
    the row.
    """

    partition = ""

    job_id = models.BigIntegerField(db_index=True)
    run_no = models.PositiveIntegerField()
    since = models.DateTimeField(null=True)
    cause = models.CharField(max_length=20, blank=True)
    output_id = models.BigIntegerField(null=True)
    asked_at = models.DateTimeField()
    asked_by = models.CharField(max_length=150)
    ended_at = models.DateTimeField(null=True)
    restored = models.PositiveBigIntegerField(default=0)
    unread = models.PositiveBigIntegerField(default=0)
    refused = models.TextField(blank=True)

    class Meta:
        indexes = (models.Index(fields=["id"], name="restoration_is_open", condition=models.Q(ended_at__isnull=True)),)


class DeletedJob(models.Model):
    """A deleted job. `rows` are its row, its seeds, windows and private policies, as Django serializes them."""

    id = models.BigIntegerField(primary_key=True)
    name = models.CharField(max_length=200)
    run_no = models.PositiveIntegerField()
    deleted_at = models.DateTimeField(db_index=True)
    rows = models.JSONField()
