"""Jobs remember the last window that they missed, until a run begins or the schedule changes."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0059_files_of_outputs_lose_lines"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="missed_window_at",
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("missed_window_at__isnull", False)), fields=["missed_window_at"], name="job_missed_window"
            ),
        ),
    ]
