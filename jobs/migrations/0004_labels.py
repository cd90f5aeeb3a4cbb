"""Labels and help texts in plain English. The tables stay as they are."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0003_plain_names'),
    ]

    operations = [
        migrations.AlterField(
            model_name='invariantcheck',
            name='name',
            field=models.SlugField(choices=[('owners', 'Each group of seeds is owned by one running manager'), ('claims', 'Each claimed document is in one open batch'), ('workers', 'Each open batch belongs to a running worker'), ('places', 'The open requests of each host match their counter'), ('counts', 'Counts of documents match their rows (a sample)')], primary_key=True, serialize=False),
        ),
        migrations.AlterField(
            model_name='job',
            name='priority',
            field=models.PositiveSmallIntegerField(default=5, help_text='If jobs compete for one host, 1 is served first and 10 last.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(10)]),
        ),
        migrations.AlterField(
            model_name='throttlepolicy',
            name='min_gap',
            field=models.FloatField(default=1.0, help_text='Seconds between the starts of two requests to one host.', validators=[django.core.validators.MinValueValidator(0.0), django.core.validators.MaxValueValidator(86400.0)]),
        ),
        migrations.AlterField(
            model_name='throttlepolicy',
            name='open_requests',
            field=models.PositiveIntegerField(default=2, help_text='Requests that may be open to one host at the same time.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000)]),
        ),
        migrations.AlterField(
            model_name='throttlepolicy',
            name='spares_loopback',
            field=models.BooleanField(default=False, help_text='Skip the gap for hosts of loopback addresses.'),
        ),
    ]
