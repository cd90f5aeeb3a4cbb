"""No process read the time until which a batch was to be done."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0063_outputs_are_restored"),
    ]

    operations = [
        migrations.RemoveField(model_name="batch", name="deadline"),
    ]
