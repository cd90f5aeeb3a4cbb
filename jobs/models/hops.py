"""How far documents are from the seeds: kept only for jobs that limit it (`jobs.queue.hops`)."""

from django.db import models


class Link(models.Model):
    """
    One document names another by a link of a type, as it was last read.

    The seeds of run n are linked from a source that is no document, the number n, by a link without a type.
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
    The least number of links of one type on a way from a seed to a document; other types count nothing.

    `via` is the source of the last link of such a way: together they make a tree, so what hangs on a
    link that is gone is found by walking it. A document that is farther than its job allows has no row.
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
