"""The distance of documents from the seeds: kept only for jobs that limit it (`jobs.queue.flushing.hops`)."""

from django.db import models


class Link(models.Model):
    """
    A link of one type from one document to another, as last read.

    Each seed of run n has a link without a type. The source of this link is not a document but the number n, as a UUID.
    """

    pk = models.CompositePrimaryKey("job_id", "source", "target", "link_type")
    job = models.ForeignKey(
        "jobs.Job", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    source = models.UUIDField()
    target = models.UUIDField()
    link_type = models.TextField()

    class Meta:
        indexes = (models.Index(fields=["job", "target"], name="link_target"),)


class HopCount(models.Model):
    """
    The fewest links of one type on a path from a seed to a document. Links of other types count zero.

    `via` is the source of the last link of such a path. These sources form a tree, so a walk through it finds all
    documents behind a removed link. A document that is farther than its job allows has no row.
    """

    pk = models.CompositePrimaryKey("job_id", "hash", "link_type")
    job = models.ForeignKey(
        "jobs.Job", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    hash = models.UUIDField()
    link_type = models.TextField()
    distance = models.IntegerField()
    via = models.UUIDField()

    class Meta:
        indexes = (models.Index(fields=["job", "via"], name="hop_count_via"),)
