"""The Django app for jobs, their documents and their processing."""

from django.apps import AppConfig

from nodes.membership.restores import raise_at_restore


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        raise_at_restore("UPDATE jobs_throttlegroup SET epoch = epoch + 1000")
