"""Verifications of outputs."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0006_archive'),
    ]

    operations = [
        migrations.CreateModel(
            name='OutputVerification',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('task', models.BigIntegerField(null=True, unique=True, verbose_name='background task, null for a command')),
                ('started_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('started_by', models.TextField()),
                ('moved_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), verbose_name='last sign of life')),
                ('compared_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('refused', models.TextField(db_default='', default='', verbose_name='why the last attempt failed')),
                ('buckets', django.contrib.postgres.fields.ArrayField(base_field=models.SmallIntegerField(), null=True, size=None)),
                ('repairs', models.BooleanField(db_default=False, default=False)),
                ('most', models.IntegerField(null=True, verbose_name='most repairs')),
                ('allows_removals', models.BooleanField(db_default=False, default=False)),
                ('attempt', models.IntegerField(db_default=0, default=0)),
                ('cursor', models.UUIDField(null=True)),
                ('documents', models.BigIntegerField(db_default=0, default=0, verbose_name='documents read')),
                ('missing', models.BigIntegerField(db_default=0, default=0)),
                ('ghost', models.BigIntegerField(db_default=0, default=0)),
                ('stale', models.BigIntegerField(db_default=0, default=0)),
                ('damaged', models.BigIntegerField(db_default=0, default=0, verbose_name='damaged entries')),
                ('skipped', models.BigIntegerField(db_default=0, default=0, verbose_name='documents that a batch had claimed')),
                ('repaired', models.BigIntegerField(db_default=0, default=0)),
                ('question', models.TextField(db_default='', default='', verbose_name='why ghosts were not removed')),
                ('output', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='verifications', to='jobs.outputconnection')),
            ],
            options={
                'ordering': ('-id',),
                'default_permissions': ('view',),
            },
        ),
        migrations.CreateModel(
            name='OutputFault',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('missing', 'missing'), ('ghost', 'ghost'), ('stale', 'stale')], max_length=10)),
                ('hash', models.UUIDField()),
                ('identifier', models.TextField()),
                ('result', models.CharField(db_default='', default='', max_length=20)),
                ('verification', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='found', to='jobs.outputverification')),
            ],
            options={
                'ordering': ('hash',),
                'default_permissions': ('view',),
            },
        ),
        migrations.AddIndex(
            model_name='outputverification',
            index=models.Index(fields=['output', '-id'], name='verification_of_output'),
        ),
        migrations.AddConstraint(
            model_name='outputfault',
            constraint=models.UniqueConstraint(fields=('verification', 'hash'), name='one_fault_a_document'),
        ),
    ]
