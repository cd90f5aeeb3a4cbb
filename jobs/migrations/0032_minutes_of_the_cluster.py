"""The state of the cluster for each minute."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0031_hours_of_hosts"),
    ]

    operations = [
        migrations.CreateModel(
            name="ClusterMinute",
            fields=[
                ("at", models.DateTimeField(primary_key=True, serialize=False)),
                ("is_whole", models.BooleanField()),
                ("facts", models.TextField()),
            ],
            options={
                "default_permissions": (),
                "indexes": [
                    models.Index(condition=models.Q(("is_whole", True)), fields=["-at"], name="cluster_minute_whole")
                ],
            },
        ),
    ]
