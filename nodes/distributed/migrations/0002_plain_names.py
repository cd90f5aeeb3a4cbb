"""Rename the number of runs in progress."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("distributed", "0001_release_0_1"),)

    operations = (
        migrations.RenameField("DistributedJobOnNode", "in_hand", "in_progress"),
        migrations.AlterField(
            "DistributedJobOnNode", "in_progress", models.IntegerField(verbose_name="runs in progress")
        ),
    )
