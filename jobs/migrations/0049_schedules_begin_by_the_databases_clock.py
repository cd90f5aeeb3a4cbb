"""What opens before a job was there does not start it: by the database's clock, whose clock ever made it."""

from django.db import migrations, models
from django.db.models.functions import Now


class Migration(migrations.Migration):
    dependencies = [("jobs", "0048_bins_know_what_they_owe")]

    operations = [migrations.AlterField("job", "schedule_checked_at", models.DateTimeField(db_default=Now()))]
