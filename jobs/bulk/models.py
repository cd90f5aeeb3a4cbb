"""The table of operations on many documents."""

import uuid

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from jobs.queue.chosen_documents import Operation


class BulkOperation(models.Model):
    """
    One operation on the documents of a filter.

    `shown` is the number of documents that the operator confirmed: no more are changed. `cursor` is the key after the
    last chunk, and is written in the transaction of the chunk. `attempt` is the fence: an older attempt changes nothing.

    An operation on the documents of several partitions has a row in each, with one `key`. In the row of the control
    partition, `elsewhere` has the other parts by the names of their partitions (`jobs.bulk.other_partitions`). Each has the
    number `shown`, the `state`, the numbers `changed` and `skipped`, and `silent` if the partition did not answer the
    last check.
    """

    task = models.BigIntegerField(unique=True)
    operation = models.TextField(choices=[(one.value, one.value) for one in Operation])
    job_id = models.BigIntegerField()
    filter = models.JSONField(default=dict)
    shown = models.BigIntegerField()
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.TextField()
    ended_at = models.DateTimeField(null=True)
    attempt = models.IntegerField(default=0, db_default=0)
    cursor: "models.UUIDField[uuid.UUID | None, uuid.UUID | None]" = models.UUIDField(null=True)
    changed = models.BigIntegerField(default=0, db_default=0)
    key: "models.UUIDField[uuid.UUID | None, uuid.UUID | None]" = models.UUIDField(null=True, unique=True)
    elsewhere = models.JSONField(default=dict)
    skipped = models.BigIntegerField(_("documents that a batch had claimed"), default=0, db_default=0)

    class Meta:
        ordering = ("-id",)
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.operation} ({self.pk})"
