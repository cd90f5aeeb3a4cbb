"""Batches and turns, which a manager offers and a worker takes."""

from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q


class Batch(models.Model):
    """
    Turns of one group that a manager offers and one worker takes. The id of the batch is the claim token of its
    documents.

    A batch that follows an open turn is reserved for the worker of that turn: `worker` is set while the batch is still
    available. The `preferred` worker may take the batch before other workers.
    """

    class State(models.TextChoices):
        AVAILABLE = "available"
        SENT = "sent"
        DONE = "done"
        RELEASED = "released"

    class Kind(models.TextChoices):
        PROCESS = "process"
        EXPIRE = "expire"
        CLEAN = "clean"
        DELETE = "delete"

    # The database does not enforce the foreign keys of batches and turns: these rows live for seconds, and the checks
    # would lock rows that all processes use. Code that deletes a group or a lane deletes these rows first.
    group = models.ForeignKey(
        "jobs.ThrottleGroup", on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="batches"
    )
    node_scope = models.CharField(max_length=100)
    manager = models.ForeignKey(
        "nodes.Node", null=True, on_delete=models.SET_NULL, db_constraint=False, db_index=False, related_name="+"
    )
    worker = models.ForeignKey(
        "nodes.Node", null=True, on_delete=models.SET_NULL, db_constraint=False, db_index=False, related_name="+"
    )
    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.PROCESS)
    preferred = models.UUIDField(null=True)
    # Only a worker with this tag may take the batch; empty: any worker may.
    tag = models.CharField(max_length=64, default="", db_default="")
    state = models.CharField(max_length=10, choices=State.choices, default=State.AVAILABLE)
    documents = models.IntegerField()
    created_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "batches"
        indexes = (
            models.Index(fields=["node_scope", "id"], name="batch_available", condition=Q(state="available")),
            models.Index(fields=["id"], name="batch_sent", condition=Q(state="sent")),
            # In a large cluster, a worker must find its batches without reading the batches of all other workers.
            models.Index(fields=["worker_id", "id"], name="batch_of_worker", condition=Q(state="sent")),
        )


class Turn(models.Model):
    """
    Consecutive documents of one lane, handed out with a pace: at most 10 s of planned work.

    `requests` is the number of requests of the bin that this turn may have open at the same time. A turn that `follows`
    another one has 0 until the earlier turn closes and passes on its number. `gap` is the time between two starts
    (seconds). `parents` are the bins above its bin, whose limits also apply: by id, each with its gap, its bytes a
    second and its limit of open requests. Documents of a turn that `is_denied` end without a request. A turn `is_trial`
    if its bin backs off: a good answer lowers the back-off level of the bin. `starts` and `bytes_read` are set when the
    turn closes; the state of the bin counts the same numbers.
    """

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, db_constraint=False, related_name="turns")
    lane = models.ForeignKey(
        "jobs.Lane", on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="turns"
    )
    bin = models.ForeignKey(
        "jobs.Bin", on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="turns"
    )
    follows = models.ForeignKey(
        "self", null=True, on_delete=models.SET_NULL, db_constraint=False, related_name="followers"
    )
    documents = models.IntegerField()
    requests = models.IntegerField()
    gap = models.FloatField()
    bytes_per_second = models.FloatField(null=True)
    parents = models.JSONField(null=True)
    is_denied = models.BooleanField(default=False, db_default=False)
    is_trial = models.BooleanField(default=False, db_default=False)
    closed_at = models.DateTimeField(null=True)
    starts = models.IntegerField(default=0, db_default=0)
    bytes_read = models.BigIntegerField(default=0, db_default=0)

    class Meta:
        indexes = (
            models.Index(fields=["bin", "id"], name="turn_open", condition=Q(closed_at__isnull=True)),
            models.Index(fields=["id"], name="turn_open_by_id", condition=Q(closed_at__isnull=True)),
            GinIndex(
                fields=["parents"],
                name="turn_open_of_parent",
                condition=Q(closed_at__isnull=True, parents__isnull=False),
            ),
        )
