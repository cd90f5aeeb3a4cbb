"""The table of drills."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("drill", "0001_drills"),
        ("drill", "0001_release_0_1"),
        ("drill", "0002_labels"),
    ]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Drill",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.DateTimeField(auto_now_add=True)),
                ("fault", models.TextField(verbose_name="fault")),
                ("whom", models.TextField(verbose_name="target")),
                ("node", models.TextField()),
                ("where", models.TextField(verbose_name="sandbox or cluster")),
                ("is_good", models.BooleanField(verbose_name="every expectation was met")),
                ("report", models.JSONField()),
            ],
            options={
                "ordering": ("-at", "-id"),
            },
        ),
    ]
