"""The limits that webmasters asked for."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0034_known_addresses"),
    ]

    operations = [
        migrations.CreateModel(
            name="WebmasterLimit",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("host", models.CharField(max_length=300, unique=True)),
                (
                    "gap",
                    models.FloatField(
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(1.0),
                            django.core.validators.MaxValueValidator(86400.0),
                        ],
                    ),
                ),
                ("proof", models.CharField(choices=[("dns", "Dns"), ("file", "File")], max_length=4)),
                ("token", models.CharField(max_length=64)),
                ("proved_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(db_index=True)),
            ],
        ),
    ]
