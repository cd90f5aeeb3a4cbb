"""The built-in template that cleans the archive each hour."""

from django.db import migrations


def _next_hour(editor):
    """Return the seventeenth minute of the next hour, by the database's clock."""
    with editor.connection.cursor() as cursor:
        cursor.execute("SELECT date_trunc('hour', now()) + interval '1 hour 17 minutes'")
        return cursor.fetchone()[0]


def make_template(apps, editor):
    apps.get_model("tasks", "TaskTemplate").objects.create(
        urn="clean-archive",
        kind="clean_archive",
        group="generic",
        retry_policy={"policy": "times", "times": 3, "seconds": 60},
        schedule={"cron": "17 * * * *"},
        unique=True,
        is_built_in=True,
        created_by="crawlctl",
        next_at=_next_hour(editor),
    )


def remove_template(apps, _editor):
    apps.get_model("tasks", "TaskTemplate").objects.filter(urn="clean-archive").delete()


class Migration(migrations.Migration):
    dependencies = [("tasks", "0001_tasks")]

    operations = [migrations.RunPython(make_template, remove_template)]
