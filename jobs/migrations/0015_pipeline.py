"""Pipelines of jobs, refusals of their stages, and metadata of documents."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0014_access'),
    ]

    operations = [
        migrations.AddField(
            model_name='indexeddocument',
            name='read_version',
            field=models.TextField(db_default='', default=''),
        ),
        migrations.AddField(
            model_name='job',
            name='pipeline',
            field=models.JSONField(blank=True, db_default={}, default=dict),
        ),
        migrations.AddField(
            model_name='searchdocument',
            name='metadata',
            field=models.JSONField(null=True),
        ),
        migrations.CreateModel(
            name='PipelineRefusal',
            fields=[
                ('pk', models.CompositePrimaryKey('job_id', 'hash', 'output_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('hash', models.UUIDField()),
                ('version', models.TextField()),
                ('stage', models.CharField(max_length=100)),
                ('code', models.CharField(max_length=100)),
                ('reason', models.TextField()),
                ('refused_at', models.DateTimeField()),
                ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='jobs.job')),
                ('output', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='jobs.outputconnection')),
            ],
        ),
        migrations.RunSQL(
            "ALTER TABLE jobs_tombstone ADD COLUMN metadata jsonb", "ALTER TABLE jobs_tombstone DROP COLUMN metadata"
        ),
    ]
