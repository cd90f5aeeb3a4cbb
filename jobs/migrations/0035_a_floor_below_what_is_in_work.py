"""
Who looks for what is in work begins at the floor, and indexes that he reads are in the order of numbers.

The tables are small whatever the queue holds: what is over goes within minutes.
"""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("jobs", "0034_room_in_pages_of_bins")]

    operations = [
        migrations.CreateModel(
            name="Floor",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("batch", models.BigIntegerField()),
                ("turn", models.BigIntegerField()),
                ("delta", models.BigIntegerField()),
                ("next_batch", models.BigIntegerField()),
                ("next_turn", models.BigIntegerField()),
                ("next_delta", models.BigIntegerField()),
                ("next_since", models.BigIntegerField()),
            ],
        ),
        migrations.RemoveIndex(model_name="batch", name="batch_sent"),
        migrations.AddIndex(
            model_name="batch", index=models.Index(fields=["id"], name="batch_sent", condition=Q(state="sent"))
        ),
        migrations.RemoveIndex(model_name="turn", name="turn_open"),
        migrations.AddIndex(
            model_name="turn",
            index=models.Index(fields=["bin", "id"], name="turn_open", condition=Q(closed_at__isnull=True)),
        ),
        migrations.AddIndex(
            model_name="turn",
            index=models.Index(fields=["id"], name="turn_open_by_id", condition=Q(closed_at__isnull=True)),
        ),
        migrations.RemoveIndex(model_name="counterdelta", name="counter_delta_job"),
        migrations.AddIndex(
            model_name="counterdelta", index=models.Index(fields=["job_id", "id"], name="counter_delta_job")
        ),
    ]
