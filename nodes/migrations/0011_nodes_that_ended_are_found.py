"""Indexes for the nodes that ended last, and for the newest nodes, among all past nodes."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("nodes", "0010_problems_of_schedules")]

    operations = [
        migrations.AddIndex(
            model_name="node",
            index=models.Index(
                fields=["-stopped_at", "id"], condition=models.Q(status__in=["failed", "stopped"]), name="node_ended"
            ),
        ),
        migrations.AddIndex(
            model_name="node", index=models.Index(fields=["-started_at", "-id"], name="node_newest")
        ),
    ]
