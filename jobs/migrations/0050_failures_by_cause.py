from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0049_failed_runs"),
    ]

    operations = [
        migrations.AddField(
            model_name="queueitem",
            name="failures_by_cause",
            field=models.JSONField(null=True),
        ),
    ]
