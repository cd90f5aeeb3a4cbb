"""The tables of background tasks, and the template of the task that cleans their archive."""

import datetime

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.datetime
import django.db.models.lookups
from django.db import migrations, models


def _next_hour(editor):
    """Return the seventeenth minute of the next hour, by the database's clock."""
    with editor.connection.cursor() as cursor:
        cursor.execute("SELECT date_trunc('hour', now()) + interval '1 hour 17 minutes'")
        return cursor.fetchone()[0]


def make_template(apps, editor):
    """Create the built-in template that cleans the archive each hour."""
    apps.get_model("tasks", "TaskTemplate").objects.create(
        urn="clean-archive",
        kind="clean_archive",
        group="generic",
        retry_policy={"policy": "times", "times": 3, "seconds": 60},
        schedule={"cron": "17 * * * *"},
        unique=True,
        is_built_in=True,
        created_by="crawlctl",
        next_at=_next_hour(editor),
    )


def remove_template(apps, _editor):
    apps.get_model("tasks", "TaskTemplate").objects.filter(urn="clean-archive").delete()


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("tasks", "0001_tasks"),
        ("tasks", "0002_archive_is_cleaned"),
        ("tasks", "0001_release_0_1"),
        ("tasks", "0002_lists_of_slow_tasks"),
        ("tasks", "0003_labels"),
        ("tasks", "0004_plain_names"),
    ]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="TaskEvent",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("task", models.BigIntegerField()),
                ("attempt", models.IntegerField()),
                (
                    "kind",
                    models.TextField(
                        choices=[
                            ("started", "started"),
                            ("ended", "ended"),
                            ("failed_finally", "failed for the last time"),
                        ]
                    ),
                ),
                ("detail", models.JSONField(db_default={}, default=dict)),
            ],
            options={
                "ordering": ("id",),
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="TaskWorker",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("name", models.TextField()),
                (
                    "work_on",
                    models.TextField(db_default="*", default="*", verbose_name="group of its tasks; * for all groups"),
                ),
                (
                    "since",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(), verbose_name="when it started"
                    ),
                ),
                ("last_seen_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "is_leaving",
                    models.BooleanField(db_default=False, default=False, verbose_name="it gets no more tasks"),
                ),
                ("host", models.TextField()),
                ("boot_id", models.TextField(db_default="", default="")),
                ("pid_namespace", models.TextField(db_default="", default="")),
                ("pid", models.IntegerField()),
                ("process_start", models.BigIntegerField(db_default=0, default=0)),
            ],
            options={
                "ordering": ("since", "id"),
            },
        ),
        migrations.CreateModel(
            name="ArchivedTask",
            fields=[
                ("kind", models.TextField()),
                ("arguments", models.JSONField(default=dict)),
                ("group", models.TextField(default="generic")),
                (
                    "tags",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), db_default=[], default=list, size=None
                    ),
                ),
                ("urn", models.TextField(db_default="", default="", verbose_name="name that its creator gave it")),
                ("retry_policy", models.JSONField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("created_by", models.TextField()),
                ("made_of", models.TextField(db_default="", default="")),
                ("made_of_urn", models.TextField(db_default="", default="")),
                (
                    "execution",
                    models.IntegerField(null=True, verbose_name="its number among the tasks of its template"),
                ),
                ("attempts", models.IntegerField(db_default=0, default=0)),
                ("crashes", models.IntegerField(db_default=0, default=0, verbose_name="workers that it lost in a row")),
                ("last_due_at", models.DateTimeField(null=True, verbose_name="when the last attempt was due")),
                ("last_started_at", models.DateTimeField(null=True)),
                ("last_ended_at", models.DateTimeField(null=True)),
                (
                    "last_crashed",
                    models.BooleanField(db_default=False, default=False, verbose_name="its worker was lost"),
                ),
                ("last_class", models.TextField(db_default="", default="")),
                ("last_message", models.TextField(db_default="", default="")),
                ("last_trace", models.TextField(db_default="", default="")),
                ("last_worker", models.TextField(db_default="", default="")),
                (
                    "late_endings",
                    models.IntegerField(db_default=0, default=0, verbose_name="ends that lost workers reported late"),
                ),
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                (
                    "why",
                    models.TextField(
                        choices=[
                            ("cancelled", "cancelled"),
                            ("done", "done"),
                            ("non-retriable-exception", "non-retriable-exception"),
                            ("not-scheduled-by-retry-policy", "not-scheduled-by-retry-policy"),
                            ("tried-too-many-times", "tried-too-many-times"),
                        ]
                    ),
                ),
                ("archived_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("result", models.JSONField(null=True, verbose_name="return value of the last attempt")),
            ],
            options={
                "ordering": ("-id",),
                "indexes": [
                    models.Index(fields=["archived_at"], name="archived_task_oldest"),
                    models.Index(
                        condition=models.Q(
                            django.db.models.lookups.GreaterThan(
                                models.ExpressionWrapper(
                                    django.db.models.expressions.CombinedExpression(
                                        models.F("last_ended_at"), "-", models.F("last_started_at")
                                    ),
                                    output_field=models.DurationField(),
                                ),
                                datetime.timedelta(seconds=5),
                            )
                        ),
                        fields=["archived_at"],
                        name="archived_task_slow",
                    ),
                    models.Index(
                        condition=models.Q(("attempts__gt", 1)),
                        fields=["archived_at"],
                        name="archived_task_often_tried",
                    ),
                    models.Index(fields=["group", "-id"], name="archived_task_of_group"),
                    models.Index(fields=["kind", "-id"], name="archived_task_of_kind"),
                    models.Index(fields=["why", "-id"], name="archived_task_why"),
                    models.Index(
                        models.F("made_of"),
                        models.F("made_of_urn"),
                        models.OrderBy(models.F("id"), descending=True),
                        condition=models.Q(("made_of", ""), _negated=True),
                        name="archived_task_of_template",
                    ),
                    django.contrib.postgres.indexes.GinIndex(fields=["tags"], name="archived_task_tags"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "why__in",
                                [
                                    "cancelled",
                                    "done",
                                    "non-retriable-exception",
                                    "not-scheduled-by-retry-policy",
                                    "tried-too-many-times",
                                ],
                            )
                        ),
                        name="archived_task_why_is_known",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="TaskTemplate",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("urn", models.TextField(unique=True)),
                ("kind", models.TextField()),
                ("arguments", models.JSONField(default=dict)),
                ("group", models.TextField(default="generic")),
                (
                    "tags",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), db_default=[], default=list, size=None
                    ),
                ),
                ("retry_policy", models.JSONField()),
                ("schedule", models.JSONField()),
                (
                    "unique",
                    models.BooleanField(
                        db_default=False, default=False, verbose_name="no task while the last one has not ended"
                    ),
                ),
                (
                    "is_built_in",
                    models.BooleanField(db_default=False, default=False, verbose_name="it cannot be removed"),
                ),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("created_by", models.TextField()),
                ("executions", models.IntegerField(db_default=0, default=0, verbose_name="tasks made of it")),
                ("last_moment", models.DateTimeField(null=True, verbose_name="moment of its last task")),
                ("last_task", models.BigIntegerField(null=True, verbose_name="number of its last task")),
                ("next_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ("urn",),
                "indexes": [models.Index(fields=["next_at"], name="task_template_due")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("group", ""), _negated=True), models.Q(("group", "*"), _negated=True)
                        ),
                        name="task_template_group_is_a_name",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Task",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("kind", models.TextField()),
                ("arguments", models.JSONField(default=dict)),
                ("group", models.TextField(default="generic")),
                (
                    "tags",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), db_default=[], default=list, size=None
                    ),
                ),
                ("urn", models.TextField(db_default="", default="", verbose_name="name that its creator gave it")),
                ("retry_policy", models.JSONField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("created_by", models.TextField()),
                ("made_of", models.TextField(db_default="", default="")),
                ("made_of_urn", models.TextField(db_default="", default="")),
                (
                    "execution",
                    models.IntegerField(null=True, verbose_name="its number among the tasks of its template"),
                ),
                ("attempts", models.IntegerField(db_default=0, default=0)),
                ("crashes", models.IntegerField(db_default=0, default=0, verbose_name="workers that it lost in a row")),
                ("last_due_at", models.DateTimeField(null=True, verbose_name="when the last attempt was due")),
                ("last_started_at", models.DateTimeField(null=True)),
                ("last_ended_at", models.DateTimeField(null=True)),
                (
                    "last_crashed",
                    models.BooleanField(db_default=False, default=False, verbose_name="its worker was lost"),
                ),
                ("last_class", models.TextField(db_default="", default="")),
                ("last_message", models.TextField(db_default="", default="")),
                ("last_trace", models.TextField(db_default="", default="")),
                ("last_worker", models.TextField(db_default="", default="")),
                (
                    "late_endings",
                    models.IntegerField(db_default=0, default=0, verbose_name="ends that lost workers reported late"),
                ),
                ("scheduled_at", models.DateTimeField()),
                ("epoch", models.BigIntegerField(db_default=0, default=0)),
                ("assigned_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                (
                    "progress",
                    models.JSONField(db_default={}, default=dict, verbose_name="report of the running attempt"),
                ),
                (
                    "cancelled_by",
                    models.TextField(db_default="", default="", verbose_name="user who cancelled the running attempt"),
                ),
                (
                    "worker",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="task",
                        to="tasks.taskworker",
                        verbose_name="its worker",
                    ),
                ),
            ],
            options={
                "ordering": ("scheduled_at", "id"),
                "permissions": (("run_task", "Can run, cancel and reschedule tasks"),),
                "indexes": [
                    models.Index(
                        condition=models.Q(("worker", None)),
                        fields=["group", "scheduled_at", "id"],
                        name="task_due_of_group",
                    ),
                    models.Index(condition=models.Q(("worker", None)), fields=["scheduled_at", "id"], name="task_due"),
                    models.Index(
                        condition=models.Q(("made_of", ""), _negated=True),
                        fields=["made_of", "made_of_urn"],
                        name="task_of_template",
                    ),
                    django.contrib.postgres.indexes.GinIndex(fields=["tags"], name="task_tags"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("assigned_at", None), ("worker", None)),
                            models.Q(("assigned_at__isnull", False), ("worker__isnull", False)),
                            _connector="OR",
                        ),
                        name="task_is_assigned_to_a_worker",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("started_at", None), ("worker__isnull", False), _connector="OR"),
                        name="task_runs_on_a_worker",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("group", ""), _negated=True), models.Q(("group", "*"), _negated=True)
                        ),
                        name="task_group_is_a_name",
                    ),
                ],
            },
        ),
        migrations.RunPython(make_template, remove_template),
    ]
