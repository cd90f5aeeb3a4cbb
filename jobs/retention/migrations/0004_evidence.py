"""The built-in template of the task that deletes the first blocks of evidence."""

from django.db import migrations


def make_template(apps, editor):
    """Create the template; it starts once an hour."""
    with editor.connection.cursor() as cursor:
        cursor.execute("SELECT date_trunc('hour', now()) + interval '1 hour'")
        hour = cursor.fetchone()[0]
    apps.get_model("tasks", "TaskTemplate").objects.create(
        urn="clean-evidence",
        kind="clean",
        arguments={"subject": "evidence"},
        group="generic",
        retry_policy={"policy": "times", "times": 3, "seconds": 60},
        schedule={"cron": "47 * * * *"},
        unique=True,
        is_built_in=True,
        created_by="crawlctl",
        next_at=hour.replace(minute=47),
    )


def remove_template(apps, _editor):
    apps.get_model("tasks", "TaskTemplate").objects.filter(urn="clean-evidence").delete()


class Migration(migrations.Migration):
    dependencies = [
        ("retention", "0003_versions"),
    ]

    operations = [
        migrations.RunPython(make_template, remove_template),
    ]
