"""Gates: while one is shut, the documents that wait behind it are not handed out (`jobs.queue.gates`)."""

from django.db import models


class Gate(models.Model):
    """
    A gate that is shut; an open one has no row. `key` is known to who shut it, and only he may open it.

    The main opens the gates of nodes that are no more.
    """

    name = models.TextField(primary_key=True)
    key = models.UUIDField()
    node = models.ForeignKey("nodes.Node", on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    shut_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class GatedDocument(models.Model):
    """A document that waits behind a shut gate: pending, without a number and without a moment of its own."""

    pk = models.CompositePrimaryKey("hash", "job_id")
    hash = models.UUIDField()
    job = models.ForeignKey(
        "jobs.Job", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    gate = models.ForeignKey(Gate, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
