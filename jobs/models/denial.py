"""The reasons of denials. The rules themselves are in a policy."""

from django.db import models


class DenialReason(models.Model):
    """The reason why a pattern of hosts is on the deny list, with the author and the time of the entry."""

    policy = models.ForeignKey("jobs.ThrottlePolicy", on_delete=models.CASCADE, db_index=False, related_name="+")
    pattern = models.CharField(max_length=300)
    reason = models.TextField()
    denied_by = models.CharField(max_length=150)
    denied_at = models.DateTimeField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["policy", "pattern"], name="one_reason_a_denial"),)

    def __str__(self) -> str:
        return f"{self.pattern}: {self.reason}"
