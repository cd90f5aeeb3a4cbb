"""How far an output has been searched for what no job keeps in it any more; null where no job has left it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0023_invariant_checks")]

    operations = [
        migrations.AddField(
            "outputconnection", "orphans_after", models.UUIDField(blank=True, editable=False, null=True)
        ),
    ]
