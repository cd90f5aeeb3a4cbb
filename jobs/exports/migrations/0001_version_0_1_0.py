"""The table of exports, and the template of the task that deletes expired exports."""

import django.contrib.postgres.fields
import django.db.models.functions.datetime
from django.db import migrations, models


def make_template(apps, editor):
    """Create the built-in template that deletes expired exports each hour."""
    with editor.connection.cursor() as cursor:
        cursor.execute("SELECT date_trunc('hour', now()) + interval '1 hour 23 minutes'")
        next_at = cursor.fetchone()[0]
    apps.get_model("tasks", "TaskTemplate").objects.create(
        urn="clean-exports",
        kind="clean_exports",
        group="generic",
        retry_policy={"policy": "times", "times": 3, "seconds": 60},
        schedule={"cron": "23 * * * *"},
        unique=True,
        is_built_in=True,
        created_by="crawlctl",
        next_at=next_at,
    )


def remove_template(apps, _editor):
    apps.get_model("tasks", "TaskTemplate").objects.filter(urn="clean-exports").delete()


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("exports", "0001_exports"),
    ]

    dependencies = [
        ("tasks", "0001_version_0_1_0"),
    ]

    operations = [
        migrations.CreateModel(
            name="Export",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("task", models.BigIntegerField(unique=True)),
                ("what", models.TextField()),
                ("format", models.TextField(choices=[("csv", "CSV"), ("jsonl", "JSON lines"), ("parquet", "Parquet")])),
                ("filter", models.JSONField(default=dict)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("created_by", models.TextField()),
                ("started_at", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                ("expires_at", models.DateTimeField(null=True, verbose_name="when the file is deleted")),
                ("attempt", models.IntegerField(db_default=0, default=0)),
                ("cursor", models.JSONField(null=True)),
                (
                    "is_read",
                    models.BooleanField(db_default=False, default=False, verbose_name="all rows are in the parts"),
                ),
                (
                    "parts",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), db_default=[], default=list, size=None
                    ),
                ),
                ("total", models.BigIntegerField(null=True, verbose_name="rows at the start, if they were counted")),
                ("rows", models.BigIntegerField(db_default=0, default=0)),
                ("bytes", models.BigIntegerField(db_default=0, default=0)),
                ("host", models.TextField(db_default="", default="", verbose_name="machine that wrote the file")),
                ("file", models.TextField(db_default="", default="")),
                ("problem", models.TextField(db_default="", default="", verbose_name="why there is no file")),
            ],
            options={
                "ordering": ("-id",),
                "default_permissions": ("add", "delete", "view"),
                "indexes": [models.Index(fields=["expires_at"], name="export_expires")],
            },
        ),
        migrations.RunPython(make_template, remove_template),
    ]
