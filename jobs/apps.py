"""The Django app for jobs, their documents and their processing."""

from django.apps import AppConfig

from jobs.queue.clock_jump import CORRECTIONS
from nodes.membership.clock_jumps import follow_at_jump
from nodes.membership.restores import raise_at_restore


class JobsConfig(AppConfig):
    name = "jobs"
    verbose_name = "Jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        raise_at_restore("UPDATE jobs_throttlegroup SET epoch = epoch + 1000")
        for correction in CORRECTIONS:
            follow_at_jump(correction)
