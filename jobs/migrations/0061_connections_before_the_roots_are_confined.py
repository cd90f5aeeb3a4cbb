from django.db import migrations

# Connections of pages and the API from before 0058, which only bound new and changed ones. Those of `manage.py crawl`
# are known by their names, and keep the paths that a local user gave.
_OUTPUTS = """
UPDATE jobs_outputconnection SET is_confined = true
 WHERE NOT is_confined AND name <> 'jsonl:' || coalesce(configuration ->> 'path', '')
   AND NOT (connector = 'jsonl' AND starts_with(name, 'standard output of '))
"""
_REPOSITORIES = """
UPDATE jobs_repositoryconnection SET is_confined = true
 WHERE NOT is_confined
   AND NOT (connector = 'filesystem' AND (starts_with(name, 'files in ') OR name ~ '^filesystem [0-9a-f]{8}$'))
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0060_jobs_miss_windows")]

    operations = [
        migrations.RunSQL(_OUTPUTS, migrations.RunSQL.noop),
        migrations.RunSQL(_REPOSITORIES, migrations.RunSQL.noop),
    ]
