"""The settings JSON of the cluster, version by version."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class SettingsVersion(models.Model):
    """
    What somebody stored as the settings of all nodes. Rows are only ever added: the newest counts.

    Nodes hear of the newest version with each heartbeat, so numbers must not be given twice or go back.
    """

    version = models.PositiveIntegerField(primary_key=True)
    document = models.JSONField(_("the settings JSON"))
    made_by = models.TextField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("-version",)

    def __str__(self) -> str:
        return f"version {self.version}"
