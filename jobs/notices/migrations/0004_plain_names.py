"""Columns with plain names."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('notices', '0003_new_topics_of_0_2'),
    ]

    operations = [
        migrations.RenameField('notificationrule', 'tells_end', 'notifies_of_end'),
        migrations.RenameField('notificationcondition', 'told_at', 'last_message_at'),
    ]
