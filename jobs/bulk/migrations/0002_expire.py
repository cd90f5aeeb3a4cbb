"""The operation `expire`."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("bulk", "0001_operations")]

    operations = [
        migrations.AlterField(
            model_name="bulkoperation",
            name="operation",
            field=models.TextField(
                choices=[
                    ("retry", "retry"),
                    ("expire", "expire"),
                    ("re-read", "re-read"),
                    ("drop", "drop"),
                    ("forget", "forget"),
                ]
            ),
        ),
    ]
