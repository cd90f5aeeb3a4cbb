"""A lock of an item keeps the moment from which the time to the item's next run counts, even after its release."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("nodes", "0013_nodes_notice_an_older_database")]

    operations = [
        migrations.AddField(model_name="itemlock", name="paced_from", field=models.DateTimeField(null=True)),
    ]
