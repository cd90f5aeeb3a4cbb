"""The evidence of politeness: reports of workers, and the chain of blocks of each host (`jobs.evidence`)."""

from django.db import models
from django.db.models import Q

from jobs.evidence.chain import NOTHING_BEFORE


class EvidenceRecorder(models.Model):
    """
    The record of one worker: the moment from which it has counted all its requests, and the moment until which it has
    reported them.

    The row is deleted when the worker has ended and it is decided whether its last minute is complete.
    """

    worker = models.UUIDField(primary_key=True)
    since = models.DateTimeField()
    complete_until = models.DateTimeField()
    # True after the last report of a worker that shut down normally.
    reported_all = models.BooleanField(default=False)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.worker)


class EvidenceReport(models.Model):
    """
    The requests of one worker to a host in a minute, until the main manager appends them to the chain.

    `number` counts the reports of the worker, so that a repeated write adds no row. A report is deleted an hour after
    it was appended.
    """

    worker = models.UUIDField()
    number = models.IntegerField()
    host = models.TextField()
    minute = models.DateTimeField()
    # JSON of `jobs.evidence.minutes.Report`.
    facts = models.TextField()
    chained_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints = (models.UniqueConstraint(fields=["worker", "number"], name="one_evidence_report"),)
        indexes = (
            models.Index(fields=["minute", "host"], name="evidence_to_chain", condition=Q(chained_at=None)),
            models.Index(fields=["chained_at"], name="evidence_chained", condition=Q(chained_at__isnull=False)),
        )

    def __str__(self) -> str:
        return f"{self.host} {self.minute:%F %R}"


class EvidenceChain(models.Model):
    """
    The chain of a host: the number and the hash of its last block.

    Retention deletes blocks from the beginning only. `pruned_seq` and `pruned_hash` are the number and the hash of the
    last deleted block: a trigger writes them (`jobs/migrations`), so that the first block that is left still has a
    predecessor.

    The chain of gaps has the host ''. Only this chain has `complete_until`: each minute before this time has all of its
    requests, or is in a gap.
    """

    host = models.TextField(unique=True)
    seq = models.BigIntegerField(default=0, db_default=0)
    hash = models.CharField(max_length=64, default=NOTHING_BEFORE, db_default=NOTHING_BEFORE)
    pruned_seq = models.BigIntegerField(default=0, db_default=0)
    pruned_hash = models.CharField(max_length=64, default=NOTHING_BEFORE, db_default=NOTHING_BEFORE)
    pruned_at = models.DateTimeField(null=True)
    complete_until = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.host


class EvidenceBlock(models.Model):
    """
    One block of a chain: `content` is canonical JSON with the hash of the block before, and `hash` is its SHA-256.

    Triggers refuse changes, and deletions that do not begin at the first block. `minute` is the minute of the requests;
    in the chain of gaps, it is the end of the gap.
    """

    pk = models.CompositePrimaryKey("chain_id", "seq")
    chain = models.ForeignKey(EvidenceChain, on_delete=models.DO_NOTHING, db_index=False, related_name="blocks")
    seq = models.BigIntegerField()
    minute = models.DateTimeField()
    content = models.TextField()
    hash = models.CharField(max_length=64)
    appended_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        indexes = (models.Index(fields=["chain", "minute"], name="evidence_of_minute"),)

    def __str__(self) -> str:
        return f"block {self.seq}"
