"""Labels and help texts in plain English. The tables stay as they are."""

import django.contrib.postgres.fields
import django.contrib.postgres.functions
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('nodes', '0002_requests_name_the_seen_state'),
    ]

    operations = [
        migrations.AlterField(
            model_name='clusterrequest',
            name='state',
            field=models.TextField(choices=[('waiting', 'waiting for the main'), ('under way', 'in progress'), ('done', 'done'), ('refused', 'refused'), ('changed', 'changed meanwhile')], default='waiting'),
        ),
        migrations.AlterField(
            model_name='coordinationcluster',
            name='identity',
            field=models.UUIDField(db_default=django.contrib.postgres.functions.RandomUUID(), verbose_name='identity of the cluster for stores beside the database'),
        ),
        migrations.AlterField(
            model_name='coordinationcluster',
            name='main',
            field=models.TextField(db_default='', default='', verbose_name='main member; empty if there is none'),
        ),
        migrations.AlterField(
            model_name='coordinationcluster',
            name='since',
            field=models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name="start or end of the main's term"),
        ),
        migrations.AlterField(
            model_name='coordinationmember',
            name='jobs',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None, verbose_name='jobs it can run'),
        ),
        migrations.AlterField(
            model_name='coordinationmember',
            name='steady_since',
            field=models.DateTimeField(verbose_name='start of its heartbeats without a gap'),
        ),
        migrations.AlterField(
            model_name='coordinationmember',
            name='timeout_seconds',
            field=models.FloatField(verbose_name='silence after which it is lost (seconds)'),
        ),
        migrations.AlterField(
            model_name='mainterm',
            name='since',
            field=models.DateTimeField(verbose_name="start or end of the main's term"),
        ),
        migrations.AlterField(
            model_name='node',
            name='address',
            field=models.TextField(blank=True, db_default='', default='', verbose_name='address of its pages'),
        ),
        migrations.AlterField(
            model_name='node',
            name='beats',
            field=models.BigIntegerField(db_default=0, default=0, verbose_name='heartbeats that the database has counted'),
        ),
        migrations.AlterField(
            model_name='node',
            name='progress',
            field=models.JSONField(blank=True, db_default={}, default=dict, verbose_name='last report of its work loop'),
        ),
        migrations.AlterField(
            model_name='node',
            name='reason',
            field=models.TextField(blank=True, db_default='', default='', verbose_name='reason for this status'),
        ),
        migrations.AlterField(
            model_name='node',
            name='settings',
            field=models.JSONField(blank=True, db_default={}, default=dict, verbose_name='settings in use'),
        ),
        migrations.AlterField(
            model_name='node',
            name='stopped_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='end'),
        ),
        migrations.AlterField(
            model_name='node',
            name='timeout_seconds',
            field=models.FloatField(verbose_name='silence after which it fails (seconds)'),
        ),
        migrations.AlterField(
            model_name='nodeevent',
            name='kind',
            field=models.SlugField(choices=[('registered', 'registered'), ('running', 'began to work'), ('draining', 'began to drain'), ('stopped', 'stopped'), ('marked_failed', 'was marked failed'), ('elected', 'became main'), ('resigned', 'resigned as main'), ('settings', 'settings were stored'), ('given', 'was given groups'), ('moving', 'is to hand groups over'), ('handed_over', 'handed groups over'), ('asked', 'was requested by an administrator'), ('changed', 'was changed')], db_index=False),
        ),
    ]
