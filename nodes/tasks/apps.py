"""The app `tasks`: background tasks, their workers and their templates."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class TasksConfig(AppConfig):
    name = "nodes.tasks"
    label = "tasks"
    verbose_name = _("Tasks")
    default_auto_field = "django.db.models.BigAutoField"
    # Kinds use the tables, so they are imported when a kind is first needed.
    task_kinds = "nodes.tasks.built_in:KINDS"
