"""The tables of distributed jobs."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("distributed", "0001_distributed_jobs"),
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
            name="DistributedJobWish",
            fields=[
                ("cluster", models.TextField(primary_key=True, serialize=False)),
                ("asked_at", models.DateTimeField()),
                ("asked_by", models.TextField()),
            ],
            options={
                "db_table": "nodes_distributedjobwish",
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
                        base_field=models.TextField(), size=None, verbose_name="items that it has there"
                    ),
                ),
                ("in_hand", models.IntegerField(verbose_name="runs in hand")),
                ("runs", models.BigIntegerField()),
                ("failures", models.BigIntegerField()),
                ("failures_in_a_row", models.IntegerField()),
                ("last_began_at", models.DateTimeField(null=True)),
                ("last_seconds", models.FloatField(null=True)),
                ("last_failure", models.TextField(db_default="", default="")),
                ("next_at", models.DateTimeField(null=True)),
                (
                    "problem",
                    models.TextField(
                        db_default="", default="", verbose_name="what is wrong with its pool, or its schedule"
                    ),
                ),
                (
                    "refusal",
                    models.TextField(
                        db_default="", default="", verbose_name="why the node, as main, leaves items where they were"
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
