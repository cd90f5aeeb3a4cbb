"""Login attempts, kept for minutes, to slow down the guessing of passwords."""

from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

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
