"""The app `exports`: documents, history and reports as files, written by background tasks."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ExportsConfig(AppConfig):
    name = "jobs.exports"
    label = "exports"
    verbose_name = _("Exports")
    default_auto_field = "django.db.models.BigAutoField"
    task_kinds = "jobs.exports.kinds:KINDS"
