"""The settings JSON of the cluster, version by version."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _


class SettingsVersion(models.Model):
    """
    A stored version of the settings of all nodes. Rows are only added: the newest applies.

    Nodes learn the newest version with each heartbeat, so numbers must never repeat or go back.
    """

    version = models.PositiveIntegerField(primary_key=True)
    document = models.JSONField(_("the settings JSON"))
    made_by = models.TextField()
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("-version",)

    def __str__(self) -> str:
        return f"version {self.version}"
