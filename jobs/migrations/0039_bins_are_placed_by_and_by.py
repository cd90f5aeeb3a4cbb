"""Bins come to stand below their addresses some at a time, by the main."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0038_lanes_that_sleep")]

    operations = [
        migrations.CreateModel(
            name="BinPlacing",
            fields=[
                (
                    "policy",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="jobs.throttlepolicy",
                    ),
                ),
                ("after", models.BigIntegerField(db_default=0, default=0)),
            ],
        ),
    ]
