"""Failed and excluded documents have an index of their own, since people look for them among millions of others."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0029_bins_know_their_address")]

    operations = [
        migrations.AddIndex(
            model_name="queueitem",
            index=models.Index(
                fields=["hash", "job"], name="document_amiss", condition=models.Q(outcome__in=[3, 4])
            ),
        ),
    ]
