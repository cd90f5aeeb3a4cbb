"""Addresses that documents reference and the rules of their job refuse."""

from django.db import models


class RejectedAddress(models.Model):
    """
    An address that the rules of a job refused, and the document that first led to it. Each job keeps a bounded sample.

    A job keeps the addresses with the lowest hashes (`jobs.queue.rejected`), so its sample is fair: every address that
    workers meet has the same chance, whenever they meet it. As for documents, the database does not enforce the foreign
    key. Instead, each write locks its jobs.
    """

    pk = models.CompositePrimaryKey("job_id", "hash")
    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, db_constraint=False, db_index=False, related_name="+")
    hash = models.UUIDField()
    identifier = models.TextField()
    found_on = models.UUIDField()
