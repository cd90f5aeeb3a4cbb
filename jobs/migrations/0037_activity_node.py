"""The worker of each activity. A constant default adds the column without writing the rows."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0036_run_samples"),
    ]

    operations = [
        migrations.AddField(
            model_name="activity",
            name="node",
            field=models.TextField(db_default="", default=""),
        ),
    ]
