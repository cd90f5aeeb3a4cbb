"""The table of login attempts."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("crawlctl", "0001_login_attempts"),
    ]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="LoginAttempt",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=64)),
                ("address", models.CharField(max_length=100)),
                ("at", models.DateTimeField()),
            ],
            options={
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["address", "at"], name="login_attempt_by_address"),
                    models.Index(fields=["at"], name="login_attempt_by_age"),
                ],
            },
        ),
    ]
