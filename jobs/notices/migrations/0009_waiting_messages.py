"""An index of the messages that wait: their number is small, and that of all messages is not."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("notices", "0008_partition_behind")]
    operations: ClassVar = [
        migrations.AddIndex(
            model_name="notificationmessage",
            index=models.Index(
                condition=models.Q(("state", "waiting")), fields=["channel"], name="message_waiting"
            ),
        ),
    ]
