"""Drills as a Django app: the command `drill`, the table of the reports, and a kind of tasks."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DrillConfig(AppConfig):
    name = "crawlctl.drill"
    label = "drill"
    verbose_name = _("Drills")
    default_auto_field = "django.db.models.BigAutoField"
    task_kinds = "crawlctl.drill.kinds:KINDS"
