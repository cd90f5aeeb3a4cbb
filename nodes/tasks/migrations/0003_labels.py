"""Labels and help texts in plain English. The tables stay as they are."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tasks', '0002_lists_of_slow_tasks'),
    ]

    operations = [
        migrations.AlterField(
            model_name='task',
            name='cancelled_by',
            field=models.TextField(db_default='', default='', verbose_name='user who cancelled the running attempt'),
        ),
    ]
