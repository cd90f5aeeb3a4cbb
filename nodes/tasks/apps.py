"""The app `tasks`: background tasks, their workers and their templates."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from nodes.membership.restores import raise_at_restore


class TasksConfig(AppConfig):
    name = "nodes.tasks"
    label = "tasks"
    verbose_name = _("Tasks")
    default_auto_field = "django.db.models.BigAutoField"
    # Kinds use the tables, so they are imported when a kind is first needed.
    task_kinds = "nodes.tasks.built_in:KINDS"

    def ready(self) -> None:
        # The workers of before are retired, and a second assignment of a task has another epoch.
        raise_at_restore("UPDATE tasks_task SET epoch = epoch + 1000")
        raise_at_restore("UPDATE tasks_taskworker SET last_seen_at = last_seen_at - interval '10 years'")
