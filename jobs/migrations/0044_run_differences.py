"""Documents that end otherwise than in the run before: their last results, and their numbers by run."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', "0043_rules_of_suspects"),
    ]

    operations = [
        migrations.AddField(
            model_name='counterdelta',
            name='example',
            field=models.TextField(db_default='', default=''),
        ),
        migrations.AddField(
            model_name='queueitem',
            name='endings',
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='run',
            name='has_differences',
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.CreateModel(
            name='RunDifference',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('job_id', models.BigIntegerField()),
                ('run_no', models.IntegerField()),
                ('before', models.SmallIntegerField()),
                ('after', models.SmallIntegerField()),
                ('code', models.CharField(blank=True, max_length=30)),
                ('bin_id', models.BigIntegerField()),
                ('amount', models.BigIntegerField()),
                ('examples', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('job_id', 'run_no', 'before', 'after', 'code', 'bin_id'), name='one_difference_a_key')],
            },
        ),
    ]
