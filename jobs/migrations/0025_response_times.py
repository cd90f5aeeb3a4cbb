"""The duration of the last request of a document. Known documents keep null until their next request."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0024_failures")]

    operations = [
        migrations.AddField(model_name="queueitem", name="response_ms", field=models.IntegerField(null=True)),
    ]
