"""An index of runs by their end."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0017_schedule_pauses'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='run',
            index=models.Index(fields=['run_end', '-started_at', '-id'], name='run_by_end'),
        ),
    ]
