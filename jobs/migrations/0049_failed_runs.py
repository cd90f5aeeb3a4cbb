from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0048_rules_of_other_partitions"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(
                    ("run_end", "error"),
                    models.Q(("excluded", 0), ("failed__gt", 0), ("indexed", 0), ("unchanged", 0)),
                    _connector="OR",
                ),
                fields=["ended_at"],
                name="run_failed",
            ),
        ),
    ]
