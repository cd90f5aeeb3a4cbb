"""The app `tasks`: background tasks, their workers and their templates."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from nodes.membership.clock_jumps import AHEAD, follow_at_jump
from nodes.membership.restores import raise_at_restore


class TasksConfig(AppConfig):
    name = "nodes.tasks"
    label = "tasks"
    verbose_name = _("Tasks")
    default_auto_field = "django.db.models.BigAutoField"
    # Kinds use the tables, so they are imported when a kind is first needed.
    task_kinds = "nodes.tasks.built_in:KINDS"

    def ready(self) -> None:
        # After a restore, no earlier worker may write the end of a task, and the recruiter retires all earlier workers.
        raise_at_restore("UPDATE tasks_task SET epoch = epoch + 1000")
        raise_at_restore("UPDATE tasks_taskworker SET last_seen_at = last_seen_at - interval '10 years'")
        # After a jump of the clock: a lost worker counts as silent from now on. The wait of a task becomes shorter by
        # the jump, unless its creator chose the date. A template is due if its next moment was computed before the
        # jump.
        follow_at_jump("UPDATE tasks_taskworker SET last_seen_at = %(now)s WHERE last_seen_at > %(now)s")
        follow_at_jump(
            "UPDATE tasks_task SET scheduled_at = greatest(scheduled_at - %(jump)s, %(now)s)"
            f" WHERE scheduled_at > %(now)s AND (last_ended_at > %(now)s + {AHEAD}"
            " OR scheduled_at <= created_at + interval '1 second')"
        )
        follow_at_jump(
            f"UPDATE tasks_tasktemplate SET next_at = %(now)s WHERE next_at > %(now)s AND last_moment > %(now)s + {AHEAD}"
        )
