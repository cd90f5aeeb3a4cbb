from django.contrib.postgres.functions import RandomUUID
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("nodes", "0008_wishes_of_distributed_jobs"),
    ]

    operations = [
        migrations.AddField(
            model_name="coordinationcluster",
            name="identity",
            field=models.UUIDField(
                db_default=RandomUUID(), verbose_name="by which a store beside the database knows whose it is"
            ),
        ),
    ]
