"""
Jobs that run, and those that ran last, are found among very many; hosts by name, and not behind all addresses above them.

What counts of a whole job is found by how documents ended, whatever job they are of.
"""

import django.db.models.functions.comparison
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0040_batches_of_a_worker_are_sent"), ("nodes", "0010_problems_of_schedules")]

    operations = [
        migrations.RemoveIndex(model_name="bin", name="bin_by_name"),
        migrations.AddIndex(
            model_name="bin",
            index=models.Index(
                django.db.models.functions.comparison.Collate("name", "C"),
                models.F("id"),
                name="bin_by_name",
                condition=~models.Q(namespace__in=["address", "policy"]),
            ),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(fields=["id"], name="job_running", condition=~models.Q(phase="inactive")),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                models.OrderBy(
                    django.db.models.functions.comparison.Coalesce("started_at", "created_at"), descending=True
                ),
                models.F("id"),
                name="job_latest",
                condition=models.Q(phase="inactive"),
            ),
        ),
        migrations.AddIndex(
            model_name="jobcounter",
            index=models.Index(fields=["stage", "outcome", "code"], name="job_counter_of_endings"),
        ),
    ]
