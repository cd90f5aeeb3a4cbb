"""Long-lived API tokens of users."""

import django.contrib.auth.models
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("crawlctl", "0001_release_0_1"),
    ]

    operations = [
        migrations.CreateModel(
            name="UserOfToken",
            fields=[],
            options={
                "proxy": True,
                "default_permissions": (),
                "indexes": [],
                "constraints": [],
            },
            bases=("auth.user",),
            managers=[
                ("objects", django.contrib.auth.models.UserManager()),
            ],
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100)),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("scope", models.CharField(max_length=20)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("created_by", models.CharField(max_length=200)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="api_tokens",
                        to="crawlctl.useroftoken",
                    ),
                ),
            ],
            options={
                "permissions": (("manage_apitoken", "Can view and revoke the tokens of all users"),),
                "default_permissions": ("add", "delete", "view"),
                "constraints": [models.UniqueConstraint(fields=("owner", "name"), name="one_api_token_of_a_name")],
            },
        ),
    ]
