"""A bounded sample of the addresses that the rules of each job refuse, for rehearsals."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0027_versions"),
    ]

    operations = [
        migrations.CreateModel(
            name='RejectedAddress',
            fields=[
                ('pk', models.CompositePrimaryKey('job_id', 'hash', blank=True, editable=False, primary_key=True, serialize=False)),
                ('hash', models.UUIDField()),
                ('identifier', models.TextField()),
                ('found_on', models.UUIDField()),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='jobs.job')),
            ],
        ),
    ]
