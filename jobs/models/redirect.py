"""Redirects that a job met at its seeds."""

from django.db import models
from django.db.models.functions import Now


class SeedRedirect(models.Model):
    """
    A redirect of a seed, or of an address to which a seed redirected, as the job last saw it.

    `is_followed` is true if the target's host belongs to the job's scope. `hash` and `target_hash` are hashes of
    documents. `target_host` is the name of a bin.
    """

    job = models.ForeignKey("jobs.Job", on_delete=models.CASCADE, db_index=False, related_name="seed_redirects")
    hash = models.UUIDField()
    source = models.TextField()
    target_hash = models.UUIDField()
    target = models.TextField()
    target_host = models.TextField()
    is_followed = models.BooleanField()
    noted_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (models.UniqueConstraint(fields=["job", "hash"], name="one_redirect_a_seed"),)
        indexes = (
            models.Index(fields=["job", "target_hash"], name="seed_redirects_to_document"),
            models.Index(fields=["job", "target_host"], name="seed_redirects_to_host"),
        )

    def __str__(self) -> str:
        return f"{self.source} → {self.target}"
