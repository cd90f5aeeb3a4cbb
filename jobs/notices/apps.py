"""The app `notices`: channels, rules and messages of notifications, and scheduled reports by e-mail."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class NoticesConfig(AppConfig):
    name = "jobs.notices"
    label = "notices"
    verbose_name = _("Notifications")
    default_auto_field = "django.db.models.BigAutoField"
    task_kinds = "jobs.notices.kinds:KINDS"
