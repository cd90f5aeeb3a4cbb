"""A column that holds jobs while slots move between partitions."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0028_rejected_addresses")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="move_hold",
            field=models.PositiveIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(condition=models.Q(("move_hold__gt", 0)), fields=["id"], name="job_held_by_move"),
        ),
    ]
