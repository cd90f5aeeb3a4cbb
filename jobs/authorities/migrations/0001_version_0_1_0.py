"""The tables of authorities, mappers and their groups."""

import uuid

import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("authorities", "0001_release_0_2"),
    ]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="AuthorityGroup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200, unique=True)),
            ],
            options={
                "ordering": ("name",),
                "permissions": (("ask_authority", "Can ask what other users may see"),),
            },
        ),
        migrations.CreateModel(
            name="ServiceToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200, unique=True)),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("created_by", models.CharField(max_length=200)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={
                "ordering": ("name",),
                "default_permissions": ("add", "delete", "view"),
            },
        ),
        migrations.CreateModel(
            name="Generation",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("mark", models.UUIDField(default=uuid.uuid4)),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="one_row_of_the_generation")
                ],
            },
        ),
        migrations.CreateModel(
            name="MappingConnection",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200, unique=True)),
                ("kind", models.SlugField()),
                ("configuration", models.JSONField(blank=True, default=dict)),
                (
                    "time_limit",
                    models.PositiveSmallIntegerField(
                        db_default=5,
                        default=5,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(120),
                        ],
                        verbose_name="time limit of a question (seconds)",
                    ),
                ),
                (
                    "at_once",
                    models.PositiveSmallIntegerField(
                        db_default=4,
                        default=4,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(100),
                        ],
                        verbose_name="questions at once",
                    ),
                ),
                ("silent_since", models.DateTimeField(blank=True, editable=False, null=True)),
                ("last_error", models.CharField(blank=True, db_default="", default="", editable=False, max_length=300)),
                (
                    "prerequisite",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="followers",
                        to="authorities.mappingconnection",
                    ),
                ),
            ],
            options={
                "ordering": ("name",),
                "abstract": False,
                "indexes": [
                    models.Index(
                        condition=models.Q(("silent_since__isnull", False)), fields=["id"], name="mapping_is_silent"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="AuthorityConnection",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200, unique=True)),
                ("kind", models.SlugField()),
                ("configuration", models.JSONField(blank=True, default=dict)),
                (
                    "time_limit",
                    models.PositiveSmallIntegerField(
                        db_default=5,
                        default=5,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(120),
                        ],
                        verbose_name="time limit of a question (seconds)",
                    ),
                ),
                (
                    "at_once",
                    models.PositiveSmallIntegerField(
                        db_default=4,
                        default=4,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(100),
                        ],
                        verbose_name="questions at once",
                    ),
                ),
                ("silent_since", models.DateTimeField(blank=True, editable=False, null=True)),
                ("last_error", models.CharField(blank=True, db_default="", default="", editable=False, max_length=300)),
                ("domain", models.CharField(blank=True, db_default="", default="", max_length=200)),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="authorities",
                        to="authorities.authoritygroup",
                    ),
                ),
                (
                    "prerequisite",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="authorities",
                        to="authorities.mappingconnection",
                    ),
                ),
            ],
            options={
                "ordering": ("name",),
                "abstract": False,
                "indexes": [
                    models.Index(
                        condition=models.Q(("silent_since__isnull", False)), fields=["id"], name="authority_is_silent"
                    )
                ],
            },
        ),
    ]
