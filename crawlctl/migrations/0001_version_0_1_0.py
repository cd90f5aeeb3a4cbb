"""The tables of users' languages, tokens and logins."""

import django.contrib.auth.models
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("crawlctl", "0001_login_attempts"),
        ("crawlctl", "0001_release_0_1"),
        ("crawlctl", "0002_api_tokens"),
        ("crawlctl", "0003_provider_identities"),
        ("crawlctl", "0004_languages_of_users"),
    ]

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("auth", "__first__"),
    ]

    operations = [
        migrations.CreateModel(
            name="LanguageOfUser",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("language", models.CharField(max_length=20)),
            ],
            options={
                "default_permissions": (),
            },
        ),
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
        migrations.CreateModel(
            name="ProviderIdentity",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("issuer", models.CharField(max_length=500)),
                ("subject", models.CharField(max_length=255)),
                ("logged_in_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="identities",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [models.UniqueConstraint(fields=("issuer", "subject"), name="one_user_of_a_subject")],
            },
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
