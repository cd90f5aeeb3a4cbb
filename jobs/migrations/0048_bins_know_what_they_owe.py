"""
A bin keeps at which rate it pays for what was read, so that another rate holds for what is not paid for yet.

Of what is owed now the rate is not known: it is paid for as it was.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0047_jobs_whose_seeds_changed")]

    operations = [migrations.AddField("binstate", "paid_rate", models.FloatField(null=True))]
