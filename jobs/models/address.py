"""The index of addresses, by which documents are found by any part of their address."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models


class NewAddress(models.Model):
    """
    The address of a new document, until the main manager moves it into a block.

    A trigger inserts the row when any program inserts the document. The table has no index, which keeps the flush
    cheap: a search reads the whole table.
    """

    pk = models.CompositePrimaryKey("job_id", "hash")
    job = models.ForeignKey(
        "jobs.Job", on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    hash = models.UUIDField()
    address = models.TextField()


class AddressBlock(models.Model):
    """
    Some hundred addresses of one job that are neighbours in the order of text, and all sequences of three bytes in
    these addresses, with ASCII letters in lower case.

    A block is written once, so it may name documents that left the queue. A search checks that the found documents
    still exist.
    """

    job = models.ForeignKey("jobs.Job", on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    documents = models.SmallIntegerField()
    hashes: "ArrayField[list[object], list[object]]" = ArrayField(models.UUIDField())
    addresses: "ArrayField[list[str], list[str]]" = ArrayField(models.TextField())
    grams: "ArrayField[list[int], list[int]]" = ArrayField(models.IntegerField())

    class Meta:
        indexes = (GinIndex(fields=["grams"], name="block_by_grams"),)
