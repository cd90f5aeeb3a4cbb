"""Rename what had a word of its own: low-water marks, and the time of a notification."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = (("jobs", "0001_release_0_1"),)

    operations = (
        migrations.RenameModel("Floor", "LowWaterMark"),
        migrations.RenameField("Notification", "told_at", "notified_at"),
    )
