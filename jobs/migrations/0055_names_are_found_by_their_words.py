"""Lists of the API find things by the words of their names."""

import django.contrib.postgres.indexes
import nodes.models.words
from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0054_bins_know_how_long_they_take'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='job',
            index=django.contrib.postgres.indexes.GinIndex(nodes.models.words.Words('name'), name='job_words'),
        ),
        migrations.AddIndex(
            model_name='outputconnection',
            index=django.contrib.postgres.indexes.GinIndex(nodes.models.words.Words('name'), name='output_words'),
        ),
        migrations.AddIndex(
            model_name='repositoryconnection',
            index=django.contrib.postgres.indexes.GinIndex(nodes.models.words.Words('name'), name='source_words'),
        ),
        migrations.AddIndex(
            model_name='throttlepolicy',
            index=django.contrib.postgres.indexes.GinIndex(nodes.models.words.Words('name'), name='policy_words'),
        ),
    ]
