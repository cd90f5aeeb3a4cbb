"""The app `retention`: background tasks that delete old rows."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class RetentionConfig(AppConfig):
    name = "jobs.retention"
    label = "retention"
    verbose_name = _("Retention")
    task_kinds = "jobs.retention.kinds:KINDS"
