"""What the main found when it last looked whether the cluster's invariants hold."""

from django.db import models


class InvariantCheck(models.Model):
    """
    The last look at one invariant.

    `found` is how much was astray (counted up to a bound), 0 where it holds, and null where the look took too
    long; `example` names one of them.
    """

    name = models.SlugField(primary_key=True)
    checked_at = models.DateTimeField()
    found = models.IntegerField(null=True)
    example = models.TextField(default="", blank=True)
    seconds = models.FloatField()

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name
