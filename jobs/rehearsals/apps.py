"""The app `rehearsals`: rehearsals by background tasks."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class RehearsalsConfig(AppConfig):
    name = "jobs.rehearsals"
    label = "rehearsals"
    verbose_name = _("Rehearsals")
    task_kinds = "jobs.rehearsals.kinds:KINDS"
