"""Labels and help texts in plain English. The tables stay as they are."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('distributed', '0002_plain_names'),
    ]

    operations = [
        migrations.AlterField(
            model_name='distributedjobonnode',
            name='items',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None, verbose_name='items'),
        ),
        migrations.AlterField(
            model_name='distributedjobonnode',
            name='problem',
            field=models.TextField(db_default='', default='', verbose_name='problem of its pool or schedule'),
        ),
        migrations.AlterField(
            model_name='distributedjobonnode',
            name='refusal',
            field=models.TextField(db_default='', default='', verbose_name='reason why the main node assigned no items'),
        ),
    ]
