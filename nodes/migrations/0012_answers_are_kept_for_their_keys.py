"""Answers are kept for requests with an Idempotency-Key."""

from django.conf import settings
from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [
        ("nodes", "0011_nodes_that_ended_are_found"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="KeptAnswer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=models.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("key", models.CharField(max_length=255)),
                ("fingerprint", models.CharField(max_length=64)),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("headers", models.JSONField(default=dict)),
                ("body", models.JSONField(null=True)),
                ("made_at", models.DateTimeField(db_default=Now())),
            ],
            options={
                "default_permissions": (),
                "constraints": [models.UniqueConstraint(name="one_answer_for_a_key", fields=["user", "key"])],
                "indexes": [models.Index(fields=["made_at"], name="kept_answer_oldest")],
            },
        ),
    ]
