"""
The cluster: nodes, main managers, and the journal of both.

The database itself enforces two rules, because they must also hold against a process that wakes after years with old
code: a node that has stopped or failed stays so, and a term only grows.
"""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

# The WHEN clauses keep both triggers off the path of a heartbeat, which changes neither column.
FINAL_STATUS = """
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

NO_FINAL_STATUS = """
DROP TRIGGER node_final_status_is_for_ever ON nodes_node;
DROP FUNCTION nodes_refuse_return_of_node();
"""

GROWING_TERM = """
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

NO_GROWING_TERM = """
DROP TRIGGER main_term_only_grows ON nodes_mainterm;
DROP FUNCTION nodes_refuse_older_term();
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Node',
            fields=[
                ('id', models.UUIDField(editable=False, primary_key=True, serialize=False)),
                ('kind', models.TextField(choices=[('manager', 'manager'), ('worker', 'worker')])),
                ('name', models.TextField()),
                ('tags', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), blank=True, db_default=[], default=list, size=None)),
                ('scope', models.TextField(db_default='cluster', default='cluster')),
                ('status', models.TextField(choices=[('starting', 'starting'), ('running', 'running'), ('draining', 'draining'), ('stopped', 'stopped'), ('failed', 'failed')])),
                ('reason', models.TextField(blank=True, db_default='', default='', verbose_name='why it has this status')),
                ('started_at', models.DateTimeField()),
                ('heartbeat_at', models.DateTimeField()),
                ('timeout_seconds', models.FloatField(verbose_name='silence after which it is failed')),
                ('stopped_at', models.DateTimeField(blank=True, null=True, verbose_name='when it stopped or was marked failed')),
                ('capacity', models.IntegerField(db_default=0, default=0, verbose_name='documents it works on at a time')),
                ('refused_writes', models.BigIntegerField(db_default=0, default=0, verbose_name='writes that a fence refused')),
                ('progress', models.JSONField(blank=True, db_default={}, default=dict, verbose_name='what its work loop last said of itself')),
                ('host', models.TextField()),
                ('boot_id', models.TextField(blank=True, db_default='', default='')),
                ('pid_namespace', models.TextField(blank=True, db_default='', default='')),
                ('pid', models.IntegerField()),
                ('process_start', models.BigIntegerField(db_default=0, default=0, verbose_name='clock ticks from boot to its start')),
                ('address', models.TextField(blank=True, db_default='', default='', verbose_name='where its pages are')),
            ],
            options={
                'ordering': ('started_at', 'id'),
                'indexes': [models.Index(condition=models.Q(('status__in', ['draining', 'running', 'starting'])), fields=['scope'], name='node_live_by_scope')],
                'constraints': [models.CheckConstraint(condition=models.Q(('kind__in', ['manager', 'worker'])), name='node_kind_is_known'), models.CheckConstraint(condition=models.Q(('status__in', ['draining', 'failed', 'running', 'starting', 'stopped'])), name='node_status_is_known'), models.CheckConstraint(condition=models.Q(('timeout_seconds__gt', 0)), name='node_timeout_is_positive'), models.CheckConstraint(condition=models.Q(models.Q(('status__in', ['failed', 'stopped']), ('stopped_at__isnull', False)), models.Q(('status__in', ['draining', 'running', 'starting']), ('stopped_at__isnull', True)), _connector='OR'), name='node_has_stopped_at_when_final')],
            },
        ),
        migrations.CreateModel(
            name='MainTerm',
            fields=[
                ('scope', models.TextField(primary_key=True, serialize=False)),
                ('term', models.BigIntegerField(db_default=0, default=0)),
                ('since', models.DateTimeField(verbose_name='when the main took office or left it')),
                ('resigned', models.BooleanField(db_default=False, default=False)),
                ('main', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='nodes.node')),
            ],
            options={
                'ordering': ('scope',),
            },
        ),
        migrations.CreateModel(
            name='NodeEvent',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('scope', models.TextField()),
                ('kind', models.SlugField(choices=[('registered', 'registered'), ('running', 'began to work'), ('draining', 'began to drain'), ('stopped', 'stopped'), ('marked_failed', 'was marked failed'), ('elected', 'became main'), ('resigned', 'resigned as main')], db_index=False)),
                ('message', models.TextField()),
                ('detail', models.JSONField(blank=True, db_default={}, default=dict)),
                ('node', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='events', to='nodes.node')),
            ],
            options={
                'ordering': ('-at', '-id'),
                'indexes': [models.Index(fields=['scope', '-at'], name='node_event_by_scope')],
            },
        ),
        migrations.RunSQL(sql=FINAL_STATUS, reverse_sql=NO_FINAL_STATUS),
        migrations.RunSQL(sql=GROWING_TERM, reverse_sql=NO_GROWING_TERM),
    ]
