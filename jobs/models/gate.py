"""Gates: while one is closed, the documents that wait for it are not handed out (`jobs.queue.flushing.gates`)."""

from django.db import models


class Gate(models.Model):
    """
    A closed gate. An open gate has no row. Only the process that closed the gate knows the `key`, and may open it.

    The main manager opens the gates of nodes that have ended.
    """

    name = models.TextField(primary_key=True)
    key = models.UUIDField()
    node = models.ForeignKey("nodes.Node", on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    closed_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name


class GatedDocument(models.Model):
    """A document that waits for a closed gate: pending, without a `seq` and without a `check_time`."""

    pk = models.CompositePrimaryKey("hash", "job_id")
    hash = models.UUIDField()
    job = models.ForeignKey(
        "jobs.Job", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    gate = models.ForeignKey(Gate, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
