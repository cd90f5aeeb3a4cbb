"""The tables of notifications."""

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("notices", "0001_release_0_1"),
        ("notices", "0002_new_topics"),
        ("notices", "0003_new_topics_of_0_2"),
        ("notices", "0004_plain_names"),
        ("notices", "0005_silent_partitions"),
        ("notices", "0006_topic_of_traps"),
        ("notices", "0007_slow_hosts"),
        ("notices", "0008_partition_behind"),
        ("notices", "0009_waiting_messages"),
        ("notices", "0010_ignored_settings"),
        ("notices", "0011_help_of_topics"),
    ]

    dependencies = [
        ("jobs", "0001_version_0_1_0"),
    ]

    operations = [
        migrations.CreateModel(
            name="NotificationChannel",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200, unique=True)),
                ("kind", models.SlugField(max_length=20)),
                ("configuration", models.JSONField(default=dict)),
                ("retry_policy", models.JSONField()),
                (
                    "most_an_hour",
                    models.PositiveIntegerField(
                        db_default=20,
                        default=20,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(1000),
                        ],
                    ),
                ),
                ("is_enabled", models.BooleanField(db_default=True, default=True)),
                ("muted_until", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("created_by", models.CharField(max_length=200)),
                ("last_sent_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("last_failed_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("last_error", models.CharField(blank=True, db_default="", default="", editable=False, max_length=200)),
            ],
            options={
                "ordering": ("name",),
                "permissions": (("use_notification", "Can test and mute notifications"),),
            },
        ),
        migrations.CreateModel(
            name="NotificationCheck",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("checked_at", models.DateTimeField()),
                ("job_event", models.BigIntegerField()),
                ("read_until", models.DateTimeField()),
                ("seen", models.JSONField(default=list)),
                ("progress", models.JSONField(default=dict)),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="one_row_of_the_last_check")
                ],
            },
        ),
        migrations.CreateModel(
            name="NotificationRule",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=200, unique=True)),
                (
                    "topics",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("job_fails", "job_fails"),
                                ("removals_wait", "removals_wait"),
                                ("schedule_missed", "schedule_missed"),
                                ("output_refuses", "output_refuses"),
                                ("connector_missing", "connector_missing"),
                                ("documents_denied", "documents_denied"),
                                ("traps_wait", "traps_wait"),
                                ("host_too_slow", "host_too_slow"),
                                ("host_fails", "host_fails"),
                                ("host_stopped", "host_stopped"),
                                ("group_fails", "group_fails"),
                                ("partition_silent", "partition_silent"),
                                ("partition_behind", "partition_behind"),
                                ("node_lost", "node_lost"),
                                ("node_silent", "node_silent"),
                                ("no_manager", "no_manager"),
                                ("no_worker", "no_worker"),
                                ("disk_full", "disk_full"),
                                ("output_behind", "output_behind"),
                                ("lines_lost", "lines_lost"),
                                ("output_out_of_sync", "output_out_of_sync"),
                                ("backup_old", "backup_old"),
                                ("archive_store_fails", "archive_store_fails"),
                                ("archive_is_full", "archive_is_full"),
                                ("archive_is_damaged", "archive_is_damaged"),
                                ("authority_silent", "authority_silent"),
                                ("setting_ignored", "setting_ignored"),
                                ("no_documents", "no_documents"),
                                ("runs_long", "runs_long"),
                                ("job_ended", "job_ended"),
                                ("job_stopped", "job_stopped"),
                                ("task_failed", "task_failed"),
                            ],
                            max_length=40,
                        ),
                        blank=True,
                        default=list,
                        help_text="If none is chosen, the rule sends all lines of the attention list.",
                        size=None,
                    ),
                ),
                (
                    "minutes",
                    models.PositiveIntegerField(
                        blank=True, null=True, verbose_name="limit of the topics no_documents and runs_long, in minutes"
                    ),
                ),
                (
                    "remind_after",
                    models.PositiveIntegerField(blank=True, null=True, verbose_name="minutes until a reminder"),
                ),
                (
                    "notifies_of_end",
                    models.BooleanField(
                        db_default=True, default=True, verbose_name="a message when the condition has ended"
                    ),
                ),
                ("is_enabled", models.BooleanField(db_default=True, default=True)),
                ("muted_until", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("created_by", models.CharField(max_length=200)),
                (
                    "channels",
                    models.ManyToManyField(blank=True, related_name="rules", to="notices.notificationchannel"),
                ),
                (
                    "job",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="jobs.job",
                    ),
                ),
            ],
            options={
                "ordering": ("name",),
            },
        ),
        migrations.CreateModel(
            name="ReportMailing",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100, unique=True)),
                ("report", models.CharField(max_length=20)),
                ("filter", models.JSONField(default=dict)),
                (
                    "hours",
                    models.PositiveIntegerField(
                        default=24, verbose_name="hours of the history before the moment of sending"
                    ),
                ),
                (
                    "recipients",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), blank=True, default=list, size=None
                    ),
                ),
                ("as_html", models.BooleanField(db_default=True, default=True)),
                ("attaches_csv", models.BooleanField(db_default=True, default=True)),
                ("created_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("created_by", models.CharField(max_length=200)),
                (
                    "channel",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="mailings",
                        to="notices.notificationchannel",
                    ),
                ),
            ],
            options={
                "ordering": ("name",),
            },
        ),
        migrations.CreateModel(
            name="NotificationMessage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "about",
                    models.CharField(
                        choices=[
                            ("new", "new"),
                            ("reminder", "reminder"),
                            ("ended", "ended"),
                            ("event", "event"),
                            ("summary", "summary"),
                            ("test", "test"),
                            ("report", "report"),
                        ],
                        max_length=10,
                    ),
                ),
                ("topic", models.CharField(db_default="", default="", max_length=40)),
                ("subject", models.TextField()),
                ("text", models.TextField()),
                ("link", models.TextField(db_default="", default="")),
                ("since", models.DateTimeField(null=True)),
                ("at", models.DateTimeField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("sent", "sent"),
                            ("failed", "failed"),
                            ("suppressed", "suppressed"),
                            ("summed_up", "suppressed and summed up"),
                        ],
                        default="waiting",
                        max_length=10,
                    ),
                ),
                ("task", models.BigIntegerField(null=True)),
                ("attempts", models.IntegerField(db_default=0, default=0)),
                ("sent_at", models.DateTimeField(null=True)),
                ("answer", models.CharField(db_default="", default="", max_length=200)),
                (
                    "channel",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="messages",
                        to="notices.notificationchannel",
                    ),
                ),
                (
                    "rule",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="messages",
                        to="notices.notificationrule",
                    ),
                ),
            ],
            options={
                "ordering": ("-id",),
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["channel", "at"], name="message_of_channel"),
                    models.Index(
                        condition=models.Q(("state", "suppressed")), fields=["channel"], name="message_suppressed"
                    ),
                    models.Index(condition=models.Q(("state", "waiting")), fields=["channel"], name="message_waiting"),
                    models.Index(fields=["at"], name="message_oldest"),
                ],
            },
        ),
        migrations.CreateModel(
            name="NotificationCondition",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("topic", models.CharField(max_length=40)),
                ("key", models.TextField()),
                ("subject", models.TextField()),
                ("sentence", models.TextField()),
                ("link", models.TextField()),
                ("since", models.DateTimeField(null=True)),
                ("found_at", models.DateTimeField()),
                ("last_message_at", models.DateTimeField(null=True)),
                ("missing_since", models.DateTimeField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
                (
                    "rule",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="conditions",
                        to="notices.notificationrule",
                    ),
                ),
            ],
            options={
                "ordering": ("-id",),
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        condition=models.Q(("ended_at__isnull", False)), fields=["ended_at"], name="condition_ended"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("ended_at", None)),
                        fields=("rule", "topic", "key"),
                        name="one_open_condition_a_rule",
                    )
                ],
            },
        ),
    ]
