"""A job counts changes of its seeds, so that no worker judges a document by the scope around older ones."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0049_schedules_begin_by_the_databases_clock"),
    ]

    operations = [
        migrations.AddField(
            model_name="job",
            name="seeds_version",
            field=models.PositiveIntegerField(db_default=1, default=1, editable=False),
        ),
    ]
