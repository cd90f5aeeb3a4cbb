"""The tables of the cluster: nodes, main managers, coordination, settings, journals."""

import datetime
import re
from typing import Final

import django.contrib.postgres.fields
import django.contrib.postgres.functions
import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import nodes.models.word_search

# The database itself enforces that the status of an ended node is final and that a term only grows: both must also hold
# against a process that wakes after years with old code. The WHEN clauses keep the triggers off the path of a heartbeat.
_FINAL_STATUS: Final = """
CREATE FUNCTION nodes_refuse_return_of_node() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'node % is %, which is for ever: it cannot become %', OLD.id, OLD.status, NEW.status
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'node_final_status_is_for_ever';
END $$;

CREATE TRIGGER node_final_status_is_for_ever
    BEFORE UPDATE OF status ON nodes_node FOR EACH ROW
    WHEN (OLD.status IN ('stopped', 'failed') AND NEW.status IS DISTINCT FROM OLD.status)
    EXECUTE FUNCTION nodes_refuse_return_of_node();
"""
_GROWING_TERM: Final = """
CREATE FUNCTION nodes_refuse_older_term() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the term of scope % is %: it only grows, and cannot become %', OLD.scope, OLD.term, NEW.term
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'main_term_only_grows';
END $$;

CREATE TRIGGER main_term_only_grows
    BEFORE UPDATE OF term ON nodes_mainterm FOR EACH ROW
    WHEN (NEW.term < OLD.term)
    EXECUTE FUNCTION nodes_refuse_older_term();
"""
# A term that goes back could be given to two main nodes.
_GROWING_COORDINATION_TERM: Final = """
CREATE FUNCTION nodes_refuse_older_coordination_term() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the term of cluster % is %: it only grows, and cannot become %', OLD.name, OLD.term, NEW.term
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'coordination_term_only_grows';
END $$;

CREATE TRIGGER coordination_term_only_grows
    BEFORE UPDATE OF term ON nodes_coordinationcluster FOR EACH ROW
    WHEN (NEW.term < OLD.term)
    EXECUTE FUNCTION nodes_refuse_older_coordination_term();
"""
# The incarnation of the database: nodes notice a restore and a promoted standby. The fence of each write calls the
# function, which takes about ten microseconds. Parts that the role may not read, or that a service does not offer, stay
# empty. The timeline is that of the write-ahead log, because the control file names the new one only after the first
# checkpoint.
_INCARNATION: Final = """
CREATE FUNCTION nodes_incarnation() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    cluster text := '';
    timeline text := '';
BEGIN
    BEGIN
        timeline := substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8);
        cluster := (SELECT system_identifier::text FROM pg_control_system());
    EXCEPTION WHEN insufficient_privilege OR undefined_function OR feature_not_supported
                OR object_not_in_prerequisite_state THEN
        NULL;
    END;
    RETURN concat_ws('/', cluster, timeline, (SELECT oid FROM pg_database WHERE datname = current_database()),
                     to_regclass('nodes_node')::oid);
END;
$$;
"""


def _functions_dropped(statement: str) -> str:
    """Return a statement that drops the functions which this one creates, with their triggers."""
    return " ".join(f"DROP FUNCTION {name} CASCADE;" for name in re.findall(r"CREATE FUNCTION (\w+)", statement))


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("nodes", "0001_cluster"),
        ("nodes", "0002_events_outlive_nodes"),
        ("nodes", "0003_stored_settings"),
        ("nodes", "0004_requests_to_the_cluster"),
        ("nodes", "0005_coordination"),
        ("nodes", "0006_elections_are_found"),
        ("nodes", "0007_distributed_jobs"),
        ("nodes", "0008_wishes_of_distributed_jobs"),
        ("nodes", "0009_clusters_know_their_database"),
        ("nodes", "0010_problems_of_schedules"),
        ("nodes", "0011_nodes_that_ended_are_found"),
        ("nodes", "0012_answers_are_kept_for_their_keys"),
        ("nodes", "0013_nodes_notice_an_older_database"),
        ("nodes", "0014_pace_of_items"),
        ("nodes", "0015_events_tell_changes"),
        ("nodes", "0016_names_are_found_by_their_words"),
        ("nodes", "0017_distributed_jobs_have_an_application"),
        ("nodes", "0001_release_0_1"),
        ("nodes", "0002_requests_name_the_seen_state"),
        ("nodes", "0003_labels"),
        ("nodes", "0004_stored_names"),
        ("nodes", "0005_restores"),
    ]

    dependencies = [
        ("auth", "__first__"),
    ]

    operations = [
        migrations.CreateModel(
            name="CoordinationCluster",
            fields=[
                ("name", models.TextField(primary_key=True, serialize=False)),
                ("term", models.BigIntegerField(db_default=0, default=0)),
                (
                    "main",
                    models.TextField(db_default="", default="", verbose_name="main member; empty if there is none"),
                ),
                ("main_instance", models.UUIDField(null=True)),
                (
                    "since",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        verbose_name="start or end of the main's term",
                    ),
                ),
                ("pool_version", models.BigIntegerField(db_default=0, default=0)),
                ("worker_version", models.BigIntegerField(db_default=0, default=0)),
                ("assignment_version", models.BigIntegerField(db_default=0, default=0)),
                (
                    "identity",
                    models.UUIDField(
                        db_default=django.contrib.postgres.functions.RandomUUID(),
                        verbose_name="identity of the cluster for stores beside the database",
                    ),
                ),
            ],
            options={
                "ordering": ("name",),
            },
        ),
        migrations.CreateModel(
            name="CoordinationMember",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cluster", "node", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("cluster", models.TextField()),
                ("node", models.TextField()),
                ("instance", models.UUIDField()),
                (
                    "jobs",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), size=None, verbose_name="jobs it can run"
                    ),
                ),
                ("heartbeat_at", models.DateTimeField()),
                ("steady_since", models.DateTimeField(verbose_name="start of its heartbeats without a gap")),
                ("timeout_seconds", models.FloatField(verbose_name="silence after which it is lost (seconds)")),
            ],
            options={
                "ordering": ("cluster", "node"),
            },
        ),
        migrations.CreateModel(
            name="SettingsVersion",
            fields=[
                ("version", models.PositiveIntegerField(primary_key=True, serialize=False)),
                ("document", models.JSONField(verbose_name="the settings JSON")),
                ("made_by", models.TextField()),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "ordering": ("-version",),
            },
        ),
        migrations.CreateModel(
            name="WorkPool",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cluster", "job", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("cluster", models.TextField()),
                ("job", models.TextField()),
                ("items", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
            ],
            options={
                "ordering": ("cluster", "job"),
            },
        ),
        migrations.CreateModel(
            name="ClusterRequest",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.TextField(
                        choices=[("rebalance", "rebalance"), ("move", "move a group"), ("drain", "drain a node")]
                    ),
                ),
                ("scope", models.TextField(default="cluster")),
                ("item", models.BigIntegerField(null=True, verbose_name="the item to move")),
                ("node", models.UUIDField(null=True, verbose_name="the node to drain, or to move to")),
                ("dry_run", models.BooleanField(default=False)),
                ("expected", models.JSONField(null=True)),
                ("asked_by", models.TextField()),
                ("asked_at", models.DateTimeField()),
                (
                    "state",
                    models.TextField(
                        choices=[
                            ("waiting", "waiting for the main manager"),
                            ("in_progress", "in progress"),
                            ("done", "done"),
                            ("refused", "refused"),
                            ("changed", "changed meanwhile"),
                        ],
                        default="waiting",
                    ),
                ),
                ("reason", models.TextField(blank=True, default="")),
                ("answered_at", models.DateTimeField(null=True)),
                ("answer", models.JSONField(null=True)),
                ("ended_at", models.DateTimeField(null=True)),
            ],
            options={
                "ordering": ("-id",),
                "permissions": (("control_cluster", "Can rebalance the cluster, move groups and drain nodes"),),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", ("waiting", "in_progress"))),
                        fields=("scope", "kind", "item", "node", "dry_run", "expected"),
                        name="one_open_request_of_its_kind",
                        nulls_distinct=False,
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="DatabaseIncarnation",
            fields=[
                ("id", models.SmallIntegerField(db_default=1, default=1, primary_key=True, serialize=False)),
                ("incarnation", models.TextField()),
                ("since", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(("id", 1)), name="database_incarnation_is_one")
                ],
            },
        ),
        migrations.CreateModel(
            name="DatabaseRestore",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                (
                    "noticed_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name="noticed"),
                ),
                ("as_of", models.DateTimeField(null=True, verbose_name="last heartbeat in the database")),
                ("before", models.TextField(verbose_name="incarnation before")),
                ("after", models.TextField(verbose_name="incarnation after")),
                ("nodes_ended", models.IntegerField(verbose_name="nodes that were marked failed")),
                ("outputs", models.JSONField(db_default={}, default=dict, verbose_name="verifications of outputs")),
                ("handled_at", models.DateTimeField(null=True, verbose_name="all verifications were scheduled")),
            ],
            options={
                "ordering": ("-id",),
                "indexes": [
                    models.Index(
                        condition=models.Q(("handled_at__isnull", True)), fields=["id"], name="database_restore_open"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ItemLock",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cluster", "job", "item", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("cluster", models.TextField()),
                ("job", models.TextField()),
                ("item", models.TextField()),
                ("node", models.TextField()),
                ("token", models.UUIDField()),
                ("since", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("paced_from", models.DateTimeField(null=True)),
                ("note", models.TextField(db_default="", default="")),
                ("host", models.TextField(db_default="", default="")),
            ],
            options={
                "ordering": ("cluster", "job", "item"),
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("expires_at__lt", datetime.datetime(9000, 1, 1, 0, 0, tzinfo=datetime.timezone.utc))
                        ),
                        name="item_lock_ends",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Node",
            fields=[
                ("id", models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ("kind", models.TextField(choices=[("manager", "manager"), ("worker", "worker")])),
                ("name", models.TextField()),
                (
                    "tags",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.TextField(), blank=True, db_default=[], default=list, size=None
                    ),
                ),
                ("scope", models.TextField(db_default="cluster", default="cluster")),
                (
                    "status",
                    models.TextField(
                        choices=[
                            ("starting", "starting"),
                            ("running", "running"),
                            ("draining", "draining"),
                            ("stopped", "stopped"),
                            ("failed", "failed"),
                        ]
                    ),
                ),
                (
                    "reason",
                    models.TextField(blank=True, db_default="", default="", verbose_name="reason for this status"),
                ),
                ("started_at", models.DateTimeField()),
                ("heartbeat_at", models.DateTimeField()),
                (
                    "beats",
                    models.BigIntegerField(
                        db_default=0, default=0, verbose_name="heartbeats that the database has counted"
                    ),
                ),
                ("timeout_seconds", models.FloatField(verbose_name="silence after which it fails (seconds)")),
                ("stopped_at", models.DateTimeField(blank=True, null=True, verbose_name="end")),
                (
                    "capacity",
                    models.IntegerField(db_default=0, default=0, verbose_name="documents it works on at a time"),
                ),
                (
                    "refused_writes",
                    models.BigIntegerField(db_default=0, default=0, verbose_name="writes that a fence refused"),
                ),
                (
                    "progress",
                    models.JSONField(
                        blank=True, db_default={}, default=dict, verbose_name="last report of its work loop"
                    ),
                ),
                ("settings", models.JSONField(blank=True, db_default={}, default=dict, verbose_name="settings in use")),
                ("host", models.TextField()),
                ("boot_id", models.TextField(blank=True, db_default="", default="")),
                ("pid_namespace", models.TextField(blank=True, db_default="", default="")),
                ("pid", models.IntegerField()),
                (
                    "process_start",
                    models.BigIntegerField(db_default=0, default=0, verbose_name="clock ticks from boot to its start"),
                ),
                (
                    "address",
                    models.TextField(blank=True, db_default="", default="", verbose_name="address of its pages"),
                ),
            ],
            options={
                "ordering": ("started_at", "id"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("status__in", ["draining", "running", "starting"])),
                        fields=["scope"],
                        name="node_live_by_scope",
                    ),
                    models.Index(
                        condition=models.Q(("status__in", ["failed", "stopped"])),
                        fields=["-stopped_at", "id"],
                        name="node_ended",
                    ),
                    models.Index(fields=["-started_at", "-id"], name="node_newest"),
                    django.contrib.postgres.indexes.GinIndex(nodes.models.word_search.Words("name"), name="node_words"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("kind__in", ["manager", "worker"])), name="node_kind_is_known"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ["draining", "failed", "running", "starting", "stopped"])),
                        name="node_status_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("timeout_seconds__gt", 0)), name="node_timeout_is_positive"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("status__in", ["failed", "stopped"]), ("stopped_at__isnull", False)),
                            models.Q(("status__in", ["draining", "running", "starting"]), ("stopped_at__isnull", True)),
                            _connector="OR",
                        ),
                        name="node_has_stopped_at_when_final",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="MainTerm",
            fields=[
                ("scope", models.TextField(primary_key=True, serialize=False)),
                ("term", models.BigIntegerField(db_default=0, default=0)),
                ("since", models.DateTimeField(verbose_name="start or end of the main's term")),
                ("resigned", models.BooleanField(db_default=False, default=False)),
                (
                    "main",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="nodes.node",
                    ),
                ),
            ],
            options={
                "ordering": ("scope",),
            },
        ),
        migrations.CreateModel(
            name="WorkShare",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "cluster", "job", "item", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("cluster", models.TextField()),
                ("job", models.TextField()),
                ("item", models.TextField()),
                ("node", models.TextField()),
            ],
            options={
                "ordering": ("cluster", "job", "item"),
                "indexes": [models.Index(fields=["cluster", "node"], name="work_share_by_node")],
            },
        ),
        migrations.CreateModel(
            name="KeptAnswer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=255)),
                ("fingerprint", models.CharField(max_length=64)),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("headers", models.JSONField(default=dict)),
                ("body", models.JSONField(null=True)),
                ("made_at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [models.Index(fields=["made_at"], name="kept_answer_oldest")],
                "constraints": [models.UniqueConstraint(fields=("user", "key"), name="one_answer_for_a_key")],
            },
        ),
        migrations.CreateModel(
            name="NodeEvent",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ("scope", models.TextField()),
                (
                    "kind",
                    models.SlugField(
                        choices=[
                            ("registered", "registered"),
                            ("running", "began to work"),
                            ("draining", "began to drain"),
                            ("stopped", "stopped"),
                            ("marked_failed", "was marked failed"),
                            ("elected", "became main manager"),
                            ("resigned", "resigned as main manager"),
                            ("settings", "settings were stored"),
                            ("given", "was given groups"),
                            ("moving", "is to hand groups over"),
                            ("handed_over", "handed groups over"),
                            ("asked", "was requested by an administrator"),
                            ("changed", "was changed"),
                        ],
                        db_index=False,
                    ),
                ),
                ("message", models.TextField()),
                ("detail", models.JSONField(blank=True, db_default={}, default=dict)),
                (
                    "node",
                    models.ForeignKey(
                        blank=True,
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="events",
                        to="nodes.node",
                    ),
                ),
            ],
            options={
                "ordering": ("-at", "-id"),
                "indexes": [
                    models.Index(fields=["scope", "-at"], name="node_event_by_scope"),
                    models.Index(
                        condition=models.Q(("kind", "elected")), fields=["scope", "-at"], name="node_event_of_election"
                    ),
                ],
            },
        ),
        migrations.RunSQL(_FINAL_STATUS, _functions_dropped(_FINAL_STATUS)),
        migrations.RunSQL(_GROWING_TERM, _functions_dropped(_GROWING_TERM)),
        migrations.RunSQL(_GROWING_COORDINATION_TERM, _functions_dropped(_GROWING_COORDINATION_TERM)),
        migrations.RunSQL(_INCARNATION, _functions_dropped(_INCARNATION)),
    ]
