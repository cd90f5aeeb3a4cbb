"""A group says since when stuffing it has failed, and why, for the pages."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0045_duties_find_what_is_due")]

    operations = [
        migrations.AddField("throttlegroup", "failing_since", models.DateTimeField(blank=True, null=True)),
        migrations.AddField(
            "throttlegroup", "failing_why", models.CharField(blank=True, db_default="", default="", max_length=300)
        ),
        migrations.AddIndex(
            "throttlegroup",
            models.Index(fields=["id"], name="group_failing", condition=models.Q(failing_since__isnull=False)),
        ),
    ]
