"""Rows of runs, at first the last run of each job."""

import django.db.models.deletion
from django.db import migrations, models


_LAST_RUNS = """
INSERT INTO jobs_run (job_id, run_no, started_at, started_by, ended_at, run_end, reason,
                      indexed, unchanged, failed, excluded, deleted, bytes)
SELECT job.id, job.run_no, job.started_at, '', job.ended_at, job.run_end, job.reason,
       coalesce(sum(amount) FILTER (WHERE measure = 'stage' AND stage = 2 AND outcome = 1), 0),
       coalesce(sum(amount) FILTER (WHERE measure = 'stage' AND stage = 2 AND outcome = 2), 0),
       coalesce(sum(amount) FILTER (WHERE measure = 'stage' AND stage = 2 AND outcome = 3), 0),
       coalesce(sum(amount) FILTER (WHERE measure = 'stage' AND stage = 2 AND outcome = 4), 0),
       coalesce(sum(amount) FILTER (WHERE measure = 'deleted'), 0),
       coalesce(sum(amount) FILTER (WHERE measure = 'bytes'), 0)
  FROM jobs_job AS job LEFT JOIN jobs_jobcounter AS counter ON counter.job_id = job.id AND counter.run_no = job.run_no
 WHERE job.started_at IS NOT NULL AND job.run_no > 0
 GROUP BY job.id
"""


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0012_partitions'),
    ]

    operations = [
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('run_no', models.PositiveIntegerField()),
                ('started_at', models.DateTimeField()),
                ('started_by', models.CharField(blank=True, max_length=200)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('run_end', models.CharField(blank=True, choices=[('finished', 'finished'), ('held', 'held'), ('document_limit', 'document_limit'), ('aborted', 'aborted'), ('error', 'error')], max_length=20)),
                ('reason', models.TextField(blank=True)),
                ('indexed', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('unchanged', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('failed', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('excluded', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('deleted', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('bytes', models.PositiveBigIntegerField(db_default=0, default=0)),
                ('job', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='jobs.job')),
            ],
            options={
                'ordering': ('-started_at', '-id'),
                'indexes': [models.Index(fields=['-started_at', '-id'], name='run_newest')],
                'constraints': [models.UniqueConstraint(fields=('job', 'run_no'), name='one_run_a_job_and_number')],
            },
        ),
        migrations.RunSQL(_LAST_RUNS, migrations.RunSQL.noop),
    ]
