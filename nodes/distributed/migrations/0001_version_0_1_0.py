"""The tables of distributed jobs."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("distributed", "0001_distributed_jobs"),
        ("distributed", "0001_release_0_1"),
        ("distributed", "0002_plain_names"),
        ("distributed", "0003_labels"),
        ("distributed", "0004_stored_names"),
    ]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="DistributedJobSwitch",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cluster", "job", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("cluster", models.TextField()),
                ("job", models.TextField(blank=True)),
                ("is_disabled", models.BooleanField()),
                ("changed_by", models.TextField(db_default="", default="")),
                ("changed_at", models.DateTimeField()),
            ],
            options={
                "db_table": "nodes_distributedjobswitch",
                "ordering": ("cluster", "job"),
            },
        ),
        migrations.CreateModel(
            name="RedistributionRequest",
            fields=[
                ("cluster", models.TextField(primary_key=True, serialize=False)),
                ("asked_at", models.DateTimeField()),
                ("asked_by", models.TextField()),
            ],
            options={
                "db_table": "nodes_redistributionrequest",
                "ordering": ("cluster",),
            },
        ),
        migrations.CreateModel(
            name="DistributedJobOnNode",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cluster", "job", "node", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("cluster", models.TextField()),
                ("job", models.TextField()),
                ("node", models.TextField()),
                (
                    "items",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), size=None, verbose_name="items"
                    ),
                ),
                ("in_progress", models.IntegerField(verbose_name="runs in progress")),
                ("runs", models.BigIntegerField()),
                ("failures", models.BigIntegerField()),
                ("failures_in_a_row", models.IntegerField()),
                ("last_began_at", models.DateTimeField(null=True)),
                ("last_seconds", models.FloatField(null=True)),
                ("last_failure", models.TextField(db_default="", default="")),
                ("next_at", models.DateTimeField(null=True)),
                (
                    "problem",
                    models.TextField(db_default="", default="", verbose_name="problem of its pool or schedule"),
                ),
                (
                    "refusal",
                    models.TextField(
                        db_default="", default="", verbose_name="reason why the main node assigned no items"
                    ),
                ),
                ("seen_at", models.DateTimeField()),
            ],
            options={
                "db_table": "nodes_distributedjobonnode",
                "ordering": ("cluster", "job", "node"),
                "indexes": [models.Index(fields=["seen_at"], name="job_on_node_seen")],
            },
        ),
    ]
