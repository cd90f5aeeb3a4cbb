"""The results of the main manager's last checks of the cluster's invariants."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class InvariantCheck(models.Model):
    """
    The last check of one invariant.

    `found` is the number of violations (counted up to a limit), 0 if the invariant holds, and null if the check took
    too long. `example` names one violation.
    """

    class Name(models.TextChoices):
        OWNERS = "owners", _("Each group of seeds is owned by one running manager")
        CLAIMS = "claims", _("Each claimed document is in one open batch")
        WORKERS = "workers", _("Each open batch belongs to a running worker")
        PLACES = "places", _("The open requests of each host match their counter")
        COUNTS = "counts", _("Counts of documents match their rows (a sample)")

    name = models.SlugField(primary_key=True, choices=Name)
    checked_at = models.DateTimeField()
    found = models.IntegerField(null=True)
    example = models.TextField(default="", blank=True)
    seconds = models.FloatField()

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name
