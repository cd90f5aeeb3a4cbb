"""Access rules of jobs, and the access of documents in the search index."""

import django.contrib.postgres.fields
import django.contrib.postgres.indexes
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0013_runs'),
    ]

    operations = [
        migrations.CreateModel(
            name='SearchAccess',
            fields=[
                ('pk', models.CompositePrimaryKey('digest', 'place', blank=True, editable=False, primary_key=True, serialize=False)),
                ('digest', models.UUIDField()),
                ('place', models.SmallIntegerField()),
                ('of', models.SmallIntegerField()),
                ('level', models.CharField(max_length=10)),
                ('allow', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ('deny', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
            ],
        ),
        migrations.AlterModelOptions(
            name='searchdocument',
            options={'permissions': (('search_as_user', 'Can search with the access of another user'),)},
        ),
        migrations.AddField(
            model_name='job',
            name='access_rules',
            field=models.JSONField(blank=True, db_default=models.Value([], models.JSONField()), default=list),
        ),
        migrations.AddField(
            model_name='searchdocument',
            name='access',
            field=models.UUIDField(null=True),
        ),
        migrations.AddIndex(
            model_name='searchdocument',
            index=models.Index(fields=['access'], name='search_access'),
        ),
        migrations.AddIndex(
            model_name='searchaccess',
            index=django.contrib.postgres.indexes.GinIndex(fields=['allow'], name='search_access_allow'),
        ),
        migrations.RunSQL(
            'ALTER TABLE jobs_tombstone ADD COLUMN access uuid', 'ALTER TABLE jobs_tombstone DROP COLUMN access'
        ),
    ]
