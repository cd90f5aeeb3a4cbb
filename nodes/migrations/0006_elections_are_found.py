"""Elections have an index of their own, because the page of the cluster shows the last ones among many other events."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("nodes", "0005_coordination")]

    operations = [
        migrations.AddIndex(
            model_name="nodeevent",
            index=models.Index(
                fields=["scope", "-at"], name="node_event_of_election", condition=models.Q(kind="elected")
            ),
        ),
    ]
