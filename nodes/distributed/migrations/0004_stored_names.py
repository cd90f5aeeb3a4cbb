"""Rename the requests to redistribute items."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = (("distributed", "0003_labels"),)

    operations = (
        migrations.RenameModel("DistributedJobWish", "RedistributionRequest"),
        migrations.AlterModelTable("RedistributionRequest", "nodes_redistributionrequest"),
    )
