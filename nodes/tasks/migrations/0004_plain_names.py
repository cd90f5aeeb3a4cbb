"""A column with a plain name."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('tasks', '0003_labels'),
    ]

    operations = [
        migrations.RenameField('taskworker', 'leaves', 'is_leaving'),
    ]
