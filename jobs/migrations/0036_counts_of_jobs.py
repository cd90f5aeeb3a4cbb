"""
Counts of a job as a whole, beside those of each of its lanes.

A few rows, each written about once a second: pages are mostly empty, so that the next version lies beside the last one
and needs no entry in the index.
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0035_a_floor_below_what_is_in_work")]

    operations = [
        migrations.CreateModel(
            name="JobCounter",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.BigIntegerField()),
                ("run_no", models.IntegerField()),
                ("measure", models.CharField(max_length=10)),
                ("stage", models.SmallIntegerField(default=0)),
                ("outcome", models.SmallIntegerField(default=0)),
                ("code", models.CharField(default="", max_length=30)),
                ("amount", models.BigIntegerField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("job_id", "run_no", "measure", "stage", "outcome", "code"),
                        name="one_counter_a_key_and_job",
                    )
                ],
            },
        ),
        migrations.RunSQL("ALTER TABLE jobs_jobcounter SET (fillfactor = 20)", "ALTER TABLE jobs_jobcounter RESET (fillfactor)"),
    ]
