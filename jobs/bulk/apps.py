"""The app `bulk`: operations on many documents by background tasks."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class BulkConfig(AppConfig):
    name = "jobs.bulk"
    label = "bulk"
    verbose_name = _("Operations on documents")
    default_auto_field = "django.db.models.BigAutoField"
    task_kinds = "jobs.bulk.kinds:KINDS"
