"""What the main found when it last looked whether the cluster's invariants hold."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class InvariantCheck(models.Model):
    """
    The last look at one invariant.

    `found` is how much was astray (counted up to a bound), 0 where it holds, and null where the look took too
    long; `example` names one of them.
    """

    class Name(models.TextChoices):
        OWNERS = "owners", _("Each group of seeds is owned by one manager at work")
        CLAIMS = "claims", _("Each claimed document is in one batch that is out")
        WORKERS = "workers", _("Each batch that is out is with a worker at work")
        PLACES = "places", _("Each host has open what is counted as open")
        COUNTS = "counts", _("Counts of documents are what the rows say, on a sample")

    name = models.SlugField(primary_key=True, choices=Name)
    checked_at = models.DateTimeField()
    found = models.IntegerField(null=True)
    example = models.TextField(default="", blank=True)
    seconds = models.FloatField()

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name
