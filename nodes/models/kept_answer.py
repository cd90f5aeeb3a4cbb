"""Answers that are kept for requests with an Idempotency-Key."""

from django.conf import settings
from django.db import models
from django.db.models.functions import Now


class KeptAnswer(models.Model):
    """
    The answer to a user's first request with a key. A request with the same key gets it again.

    Without a `status` the first request has no answer yet: it is running, or its server ended first.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    key = models.CharField(max_length=255)
    # A digest of the method, the address and the body.
    fingerprint = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    headers = models.JSONField(default=dict)
    body = models.JSONField(null=True)
    made_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = (models.UniqueConstraint(name="one_answer_for_a_key", fields=["user", "key"]),)
        indexes = (models.Index(fields=["made_at"], name="kept_answer_oldest"),)
        default_permissions = ()
