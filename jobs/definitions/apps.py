"""The app `definitions`: files of jobs, connections and policies. It has no tables."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class DefinitionsConfig(AppConfig):
    name = "jobs.definitions"
    label = "definitions"
    verbose_name = _("Definitions")
