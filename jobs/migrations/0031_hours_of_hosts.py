"""Requests of hosts by hour, which are counted when their turns are deleted."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0030_past_robots"),
    ]

    operations = [
        migrations.AddField(
            model_name="turn",
            name="bytes_read",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="turn",
            name="starts",
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.CreateModel(
            name="BinHour",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "bin_id", "hour", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hour", models.DateTimeField(db_index=True)),
                ("starts", models.BigIntegerField()),
                ("bytes_read", models.BigIntegerField()),
                ("gap", models.FloatField()),
                ("bytes_per_second", models.FloatField(null=True)),
                (
                    "bin",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.bin",
                    ),
                ),
            ],
        ),
    ]
