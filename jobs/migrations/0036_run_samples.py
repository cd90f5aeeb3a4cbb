"""A sample of documents at the end of each run."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0035_webmasters_limits"),
    ]

    operations = [
        migrations.CreateModel(
            name="RunSample",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="sample",
                        serialize=False,
                        to="jobs.run",
                    ),
                ),
                ("is_whole", models.BooleanField()),
                ("hashes", django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), size=None)),
                ("identifiers", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                (
                    "outcomes",
                    django.contrib.postgres.fields.ArrayField(base_field=models.SmallIntegerField(), size=None),
                ),
                ("codes", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ("versions", django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None)),
                (
                    "answer_ms",
                    django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(null=True), size=None),
                ),
            ],
            options={
                "default_permissions": (),
            },
        ),
    ]
