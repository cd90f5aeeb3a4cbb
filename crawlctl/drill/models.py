"""What came of drills."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Drill(models.Model):
    """One drill; `report` as `crawlctl.drill.observation.Report` tells it."""

    at = models.DateTimeField(auto_now_add=True)
    fault = models.TextField(_("what was done"))
    whom = models.TextField(_("to whom"))
    node = models.TextField()
    where = models.TextField(_("sandbox or cluster"))
    is_good = models.BooleanField(_("everything came as it should"))
    report = models.JSONField()

    class Meta:
        ordering = ("-at", "-id")

    def __str__(self) -> str:
        return f"{self.fault} {self.whom}, {self.at:%Y-%m-%d %H:%M}"
