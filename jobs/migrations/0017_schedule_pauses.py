"""Pauses of schedules."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0016_found_on'),
    ]

    operations = [
        migrations.AddField(
            model_name='job',
            name='schedule_paused_at',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='schedule_paused_by',
            field=models.CharField(blank=True, db_default='', default='', editable=False, max_length=200),
        ),
    ]
