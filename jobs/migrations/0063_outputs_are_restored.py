"""What an operator's order took out of an output can be restored into this output."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0062_the_guard_looks_at_single_hosts"),
    ]

    operations = [
        migrations.AddField(
            model_name="restoration",
            name="output_id",
            field=models.BigIntegerField(null=True),
        ),
    ]
