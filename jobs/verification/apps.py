"""The app `verification`: outputs and archives are compared with their records by commands and background tasks."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class VerificationConfig(AppConfig):
    name = "jobs.verification"
    label = "verification"
    verbose_name = _("Verification")
    task_kinds = "jobs.verification.kinds:KINDS"
