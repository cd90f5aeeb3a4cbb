"""Groups of addresses of a host that look like traps."""

import enum

from django.contrib.postgres.fields import ArrayField
from django.db import models


class TrapDecision(enum.StrEnum):
    """The decision of an operator about a suspect."""

    OPEN = "open"
    # The rules of the job refuse its addresses.
    ACCEPTED = "accepted"
    # It is no trap.
    RELEASED = "released"


class TrapSuspect(models.Model):
    """
    A group of addresses that a job fetched at a host, and that had little new content.

    `rule` is the expression that would exclude the group, and `parameter` the query parameter that its addresses
    share, "" for none. Fetches, those with new content and bytes count first readings. `held` counts the documents that
    ended without a request: a document counts again in each run. `proven` are templates of the host with new content.
    Workers write the counts (`jobs.queue.traps`).
    """

    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="+")
    host = models.TextField()
    template = models.TextField()
    rule = models.TextField()
    parameter = models.TextField(default="", db_default="")
    run_no = models.PositiveIntegerField()
    fetched = models.BigIntegerField(default=0, db_default=0)
    new = models.BigIntegerField(default=0, db_default=0)
    bytes = models.BigIntegerField(default=0, db_default=0)
    held = models.BigIntegerField(default=0, db_default=0)
    samples: "ArrayField[list[str], list[str]]" = ArrayField(models.TextField())
    new_samples: "ArrayField[list[str], list[str]]" = ArrayField(models.TextField())
    proven: "ArrayField[list[str], list[str]]" = ArrayField(models.TextField())
    suspected_at = models.DateTimeField()
    decision = models.CharField(
        max_length=10,
        choices=[(one.value, one.value) for one in TrapDecision],
        default=TrapDecision.OPEN.value,
        db_default=TrapDecision.OPEN.value,
    )
    decided_by = models.CharField(max_length=150, default="", db_default="")
    decided_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        indexes = (
            models.Index(fields=["job"], name="open_suspects", condition=models.Q(decision=TrapDecision.OPEN.value)),
        )
        constraints = (models.UniqueConstraint(fields=["job", "host", "template"], name="one_suspect_a_group"),)

    def __str__(self) -> str:
        return f"{self.template} at {self.host}"

    @property
    def is_open(self) -> bool:
        return self.decision == TrapDecision.OPEN
