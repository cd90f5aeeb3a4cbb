"""
Lanes that sleep are found by when they were served last: those whose wake-up may be lost, and what a page shows first.

The index of their seeds goes: others begin with the seed, and each version of a lane wrote an entry into it.
"""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    dependencies = [("jobs", "0037_counts_of_jobs_are_added_up")]

    operations = [
        migrations.AddIndex(
            model_name="lane",
            index=models.Index(
                F("seed"), F("served_at").desc(nulls_last=True), name="lane_asleep", condition=Q(ready_at__isnull=True)
            ),
        ),
        migrations.AlterField(
            model_name="lane",
            name="seed",
            field=models.ForeignKey(
                db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="lanes", to="jobs.seed"
            ),
        ),
    ]
