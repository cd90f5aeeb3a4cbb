"""Kept versions of documents. Their texts are compressed already, so the database compresses none again."""

import django.core.validators
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0039_evidence"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="kept_versions",
            field=models.PositiveSmallIntegerField(
                db_default=0,
                default=0,
                validators=[django.core.validators.MaxValueValidator(100)],
            ),
        ),
        migrations.CreateModel(
            name="DocumentVersion",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "hash", "job_id", "number", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("hash", models.UUIDField()),
                ("number", models.IntegerField()),
                ("fetched_at", models.DateTimeField()),
                ("run_no", models.IntegerField()),
                ("code", models.CharField(max_length=30)),
                ("headers", models.TextField()),
                ("text", models.BinaryField()),
                ("length", models.IntegerField()),
                ("is_cut", models.BooleanField()),
                ("digest", models.UUIDField()),
                ("access", models.JSONField()),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
            options={"default_permissions": ("view",)},
        ),
        migrations.RunSQL("ALTER TABLE jobs_documentversion ALTER COLUMN text SET STORAGE EXTERNAL", migrations.RunSQL.noop),
    ]
