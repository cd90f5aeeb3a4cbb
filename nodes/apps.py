"""The app `nodes`: the members of the cluster and their roles. This app does not depend on crawling."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class NodesConfig(AppConfig):
    name = "nodes"
    verbose_name = _("Nodes")
    default_auto_field = "django.db.models.BigAutoField"
