"""An index of the waiting messages: they are few, and the table of messages is large."""

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
