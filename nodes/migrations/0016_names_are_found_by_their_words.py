"""Indexes by which lists of the API find things by the words of their names."""

import django.contrib.postgres.indexes
import nodes.models.words
from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('nodes', '0015_events_tell_changes'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='node',
            index=django.contrib.postgres.indexes.GinIndex(nodes.models.words.Words('name'), name='node_words'),
        ),
    ]
