"""What a document that is tried again is tried until: nullable and without a default, so no row is written."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0018_events_outlive_jobs")]

    operations = [
        migrations.AddField("queueitem", "most_failures", models.IntegerField(null=True)),
        migrations.AddField("queueitem", "failing_until", models.DateTimeField(null=True)),
    ]
