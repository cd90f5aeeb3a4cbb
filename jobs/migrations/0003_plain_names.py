"""Rename low-water marks and the time of a notification, and a permission's text."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = (("jobs", "0002_job_chains"),)

    operations = (
        migrations.RenameModel("Floor", "LowWaterMark"),
        migrations.RenameField("Notification", "told_at", "notified_at"),
        migrations.AlterModelOptions(
            "Bin", {"permissions": (("stop_bin", "Can stop and deny hosts, and release them"),)}
        ),
    )
