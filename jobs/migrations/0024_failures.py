"""Groups of failures, and a sample of the documents that a delta of counters counts."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0023_removals_of_partitions'),
    ]

    operations = [
        migrations.AddField(
            model_name='counterdelta',
            name='sample',
            field=models.UUIDField(null=True),
        ),
        migrations.CreateModel(
            name='FailureGroup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('code', models.CharField(max_length=30)),
                ('first_at', models.DateTimeField()),
                ('last_at', models.DateTimeField()),
                ('times', models.BigIntegerField()),
                ('sample', models.UUIDField()),
                ('bin', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.bin')),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.job')),
            ],
        ),
        migrations.CreateModel(
            name='FailureHour',
            fields=[
                ('pk', models.CompositePrimaryKey('group_id', 'hour', blank=True, editable=False, primary_key=True, serialize=False)),
                ('hour', models.DateTimeField(db_index=True)),
                ('times', models.BigIntegerField()),
                ('group', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.failuregroup')),
            ],
        ),
        migrations.AddIndex(
            model_name='failuregroup',
            index=models.Index(fields=['-last_at', '-id'], name='failure_group_newest'),
        ),
        migrations.AddIndex(
            model_name='failuregroup',
            index=models.Index(fields=['job', '-last_at', '-id'], name='failure_group_of_job'),
        ),
        migrations.AddIndex(
            model_name='failuregroup',
            index=models.Index(fields=['code', '-last_at', '-id'], name='failure_group_of_code'),
        ),
        migrations.AddConstraint(
            model_name='failuregroup',
            constraint=models.UniqueConstraint(fields=('job', 'bin', 'code'), name='one_failure_group_a_cause'),
        ),
    ]
