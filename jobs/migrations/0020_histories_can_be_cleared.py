"""Since when the history of a source is to be forgotten; null where nobody asked for that."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0019_limits_of_retries")]

    operations = [
        migrations.AddField(
            "repositoryconnection",
            "clear_history_before",
            models.DateTimeField(blank=True, editable=False, null=True),
        ),
    ]
