"""A bin keeps how long one of its documents takes: turns are sized by it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0053_the_clean_up_of_a_run_may_ask_first")]

    operations = [migrations.AddField("binstate", "answer_seconds", models.FloatField(null=True))]
