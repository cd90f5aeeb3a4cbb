"""Where seeds redirect to is kept: their hosts belong to the scope, and commands name the others."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0051_expiry_counts_from_what_sources_say"),
    ]

    operations = [
        migrations.CreateModel(
            name='SeedRedirect',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hash', models.UUIDField()),
                ('source', models.TextField()),
                ('target_hash', models.UUIDField()),
                ('target', models.TextField()),
                ('target_host', models.TextField()),
                ('is_followed', models.BooleanField()),
                ('noted_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('job', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='seed_redirects', to='jobs.job')),
            ],
            options={
                'indexes': [models.Index(fields=['job', 'target_hash'], name='seed_redirects_to_document'), models.Index(fields=['job', 'target_host'], name='seed_redirects_to_host')],
                'constraints': [models.UniqueConstraint(fields=('job', 'hash'), name='one_redirect_a_seed')],
            },
        ),
    ]
