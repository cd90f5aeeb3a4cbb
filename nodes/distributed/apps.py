"""The app `distributed`: distributed jobs and their records, pages, API and commands."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DistributedConfig(AppConfig):
    name = "nodes.distributed"
    label = "distributed"
    verbose_name = _("Distributed jobs")
    default_auto_field = "django.db.models.BigAutoField"
