"""The app `explain`: the command that explains an address."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ExplainConfig(AppConfig):
    name = "jobs.explain"
    label = "explain"
    verbose_name = _("Explanations")
