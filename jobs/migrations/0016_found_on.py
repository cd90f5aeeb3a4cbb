"""The document on which a document was first found. Known documents keep null."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0015_pipeline")]

    operations = [
        migrations.AddField(model_name="queueitem", name="found_on", field=models.UUIDField(null=True)),
    ]
