"""The built-in templates of retention."""

from django.db import migrations

# The minute of each hour at which a subject is cleaned.
_MINUTES = {
    "history": 29,
    "tombstones": 31,
    "journals": 37,
    "nodes": 41,
    "answers": 43,
    "runs": 47,
    "failures": 39,
    "versions": 43,
    "evidence": 47,
}


def make_templates(apps, editor):
    """Create a built-in template for each subject. Each starts once an hour."""
    with editor.connection.cursor() as cursor:
        cursor.execute("SELECT date_trunc('hour', now()) + interval '1 hour'")
        hour = cursor.fetchone()[0]
    template = apps.get_model("tasks", "TaskTemplate")
    for subject, minute in _MINUTES.items():
        template.objects.create(
            urn=f"clean-{subject}",
            kind="clean",
            arguments={"subject": subject},
            group="generic",
            retry_policy={"policy": "times", "times": 3, "seconds": 60},
            schedule={"cron": f"{minute} * * * *"},
            unique=True,
            is_built_in=True,
            created_by="crawlctl",
            next_at=hour.replace(minute=minute),
        )


def remove_templates(apps, _editor):
    template = apps.get_model("tasks", "TaskTemplate")
    template.objects.filter(urn__in=[f"clean-{subject}" for subject in _MINUTES]).delete()


class Migration(migrations.Migration):
    initial = True

    replaces = [
        ("retention", "0001_templates"),
        ("retention", "0002_failures"),
        ("retention", "0003_versions"),
        ("retention", "0004_evidence"),
    ]

    dependencies = [
        ("tasks", "0001_version_0_1_0"),
    ]

    operations = [
        migrations.RunPython(make_templates, remove_templates),
    ]
