"""The built-in template that deletes old failures."""

from django.db import migrations


def make_template(apps, editor):
    """Create the template; it starts once an hour."""
    with editor.connection.cursor() as cursor:
        cursor.execute("SELECT date_trunc('hour', now()) + interval '1 hour'")
        hour = cursor.fetchone()[0]
    apps.get_model("tasks", "TaskTemplate").objects.create(
        urn="clean-failures",
        kind="clean",
        arguments={"subject": "failures"},
        group="generic",
        retry_policy={"policy": "times", "times": 3, "seconds": 60},
        schedule={"cron": "39 * * * *"},
        unique=True,
        is_built_in=True,
        created_by="crawlctl",
        next_at=hour.replace(minute=39),
    )


def remove_template(apps, _editor):
    apps.get_model("tasks", "TaskTemplate").objects.filter(urn="clean-failures").delete()


class Migration(migrations.Migration):
    dependencies = [
        ("retention", "0001_templates"),
    ]

    operations = [
        migrations.RunPython(make_template, remove_template),
    ]
