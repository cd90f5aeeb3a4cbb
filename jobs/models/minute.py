"""The state of the cluster, minute by minute."""

from django.db import models
from django.db.models import Q


class ClusterMinute(models.Model):
    """
    The state of the cluster at the start of one minute, as the main manager saw it (`jobs.queries.cluster.facts`).

    If `is_whole`, `facts` has all facts; otherwise it has the differences from the minute that was stored before.
    """

    at = models.DateTimeField(primary_key=True)
    is_whole = models.BooleanField()
    # Stored as JSON text and not as jsonb, which would need three times the space: most rows are short lists of
    # numbers.
    facts = models.TextField()

    class Meta:
        default_permissions = ()
        indexes = (models.Index(fields=["-at"], name="cluster_minute_whole", condition=Q(is_whole=True)),)

    def __str__(self) -> str:
        return f"{self.at:%F %R}"
