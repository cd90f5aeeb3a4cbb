"""The table of operations on many documents."""

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("bulk", "0001_operations"),
        ("bulk", "0002_expire"),
        ("bulk", "0003_parts"),
    ]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="BulkOperation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("task", models.BigIntegerField(unique=True)),
                (
                    "operation",
                    models.TextField(
                        choices=[
                            ("retry", "retry"),
                            ("expire", "expire"),
                            ("re-read", "re-read"),
                            ("drop", "drop"),
                            ("forget", "forget"),
                        ]
                    ),
                ),
                ("job_id", models.BigIntegerField()),
                ("filter", models.JSONField(default=dict)),
                ("shown", models.BigIntegerField()),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("created_by", models.TextField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("attempt", models.IntegerField(db_default=0, default=0)),
                ("cursor", models.UUIDField(null=True)),
                ("changed", models.BigIntegerField(db_default=0, default=0)),
                ("key", models.UUIDField(null=True, unique=True)),
                ("elsewhere", models.JSONField(default=dict)),
                (
                    "skipped",
                    models.BigIntegerField(db_default=0, default=0, verbose_name="documents that a batch had claimed"),
                ),
            ],
            options={
                "ordering": ("-id",),
                "default_permissions": ("view",),
            },
        ),
    ]
