import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0010_job_states'),
    ]

    operations = [
        migrations.CreateModel(
            name='HopCount',
            fields=[
                ('pk', models.CompositePrimaryKey('job_id', 'hash', 'link_type', blank=True, editable=False, primary_key=True, serialize=False)),
                ('hash', models.UUIDField()),
                ('link_type', models.TextField()),
                ('distance', models.IntegerField()),
                ('via', models.UUIDField()),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.job')),
            ],
        ),
        migrations.CreateModel(
            name='Link',
            fields=[
                ('pk', models.CompositePrimaryKey('job_id', 'source', 'target', 'link_type', blank=True, editable=False, primary_key=True, serialize=False)),
                ('source', models.UUIDField()),
                ('target', models.UUIDField()),
                ('link_type', models.TextField()),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.job')),
            ],
            options={
                'indexes': [models.Index(fields=['job', 'target'], name='link_target')],
            },
        ),
        migrations.AddIndex(
            model_name='queueitem',
            index=models.Index(condition=models.Q(('indexed_before', True), ('stage', 5)), fields=['lane', 'run_no'], name='document_outside'),
        ),
        migrations.AlterField(
            model_name='queueitem',
            name='action',
            field=models.SmallIntegerField(choices=[(0, 'process'), (1, 'expire'), (2, 'leave')], default=0),
        ),
    ]
