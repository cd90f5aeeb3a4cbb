"""Groups of addresses of a host that look like traps."""

import enum

from django.contrib.postgres.fields import ArrayField
from django.db import models


class TrapDecision(enum.StrEnum):
    """The decision of an operator about a suspect: open until the operator accepts it as a trap or releases it."""

    OPEN = "open"
    # The rules of the job refuse its addresses.
    ACCEPTED = "accepted"
    # An operator decided that the suspect is no trap.
    RELEASED = "released"


class RuleKind(enum.StrEnum):
    """
    The rules that a job can get for a suspect: one that excludes the addresses, or one that drops a parameter of their
    query.
    """

    EXCLUDE = "exclude"
    DROP_PARAMETER = "drop_parameter"


class RuleState(enum.StrEnum):
    """The state of the rule that an accepted suspect gives to its job."""

    NONE = ""
    # The job runs: it gets the rule when the run ends, and holds the group back until then.
    WAITS = "waits"
    ADDED = "added"
    # The job had the rule before the suspect was accepted.
    PRESENT = "present"
    # The acceptance was undone while the job runs: it loses the rule when the run ends.
    LEAVES = "leaves"


class TrapSuspect(models.Model):
    """
    A group of addresses that a job fetched at a host, and that had little new content.

    `rule` is the expression that would exclude the group, and `parameter` the query parameter that its addresses share,
    "" for none. The numbers of fetches, of fetches with new content, and of bytes count only the first reading of each
    address. `held` counts the documents that ended without a request: a document counts again in each run. `proven` are
    templates of the host with new content. Workers write the counts (`jobs.queue.traps`). `accepted_as` is the kind of
    the accepted rule, and `rule_state` says whether the job has it (`jobs.state.trap_rules`). If the row is a copy in
    the control partition, `of_partition` names the partition that has the suspect (`jobs.verbs.trap_rules`).
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
    accepted_as = models.CharField(max_length=20, default="", db_default="")
    rule_state = models.CharField(max_length=10, default="", db_default="")
    of_partition = models.CharField(max_length=31, default="", db_default="")

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
