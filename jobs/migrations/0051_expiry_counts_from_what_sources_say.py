"""Expiry counts from what a source says of a document each time that it is processed: nothing of it is kept."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0050_jobs_count_changes_of_their_seeds"),
    ]

    operations = [
        migrations.RemoveField(
            model_name="queueitem",
            name="originated_at",
        ),
    ]
