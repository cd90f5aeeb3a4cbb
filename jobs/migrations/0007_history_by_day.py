"""
The history, in partitions by day: dropping a day is a matter of milliseconds, and deleting its rows is not.

Django knows the table and not its partitions. A partition is named by its day; what belongs to no day that
was made beforehand stands in the default one. The first days are made here, since a one-shot may begin at once.
"""

import django.db.models.deletion
from django.db import migrations, models

_MAKE = """
CREATE SEQUENCE jobs_activity_id_seq;
CREATE TABLE jobs_activity (
    id bigint NOT NULL DEFAULT nextval('jobs_activity_id_seq'),
    started_at timestamp with time zone NOT NULL,
    seconds double precision,
    job_id bigint,
    repository_id bigint NOT NULL,
    output_id bigint,
    bytes bigint,
    activity text NOT NULL,
    entity text NOT NULL,
    result_code text NOT NULL DEFAULT '',
    result_description text NOT NULL DEFAULT ''
) PARTITION BY RANGE (started_at);
ALTER SEQUENCE jobs_activity_id_seq OWNED BY jobs_activity.id;
CREATE INDEX activity_of_repository ON jobs_activity (repository_id, started_at);
CREATE TABLE jobs_activity_default PARTITION OF jobs_activity DEFAULT;
DO $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
    day date;
BEGIN
    FOR day IN SELECT today + ahead FROM generate_series(0, 7) AS ahead LOOP
        EXECUTE format(
            'CREATE TABLE %I PARTITION OF jobs_activity FOR VALUES FROM (%L) TO (%L)',
            'jobs_activity_' || to_char(day, 'YYYYMMDD'),
            day::timestamp AT TIME ZONE 'UTC',
            (day + 1)::timestamp AT TIME ZONE 'UTC');
    END LOOP;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0006_schedules_intervals_and_notifications")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(_MAKE, "DROP TABLE jobs_activity")],
            state_operations=[
                migrations.CreateModel(
                    name="Activity",
                    fields=[
                        ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                        ("started_at", models.DateTimeField()),
                        ("seconds", models.FloatField(null=True)),
                        (
                            "job",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                related_name="+",
                                to="jobs.job",
                            ),
                        ),
                        (
                            "repository",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                related_name="+",
                                to="jobs.repositoryconnection",
                            ),
                        ),
                        (
                            "output",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                null=True,
                                on_delete=django.db.models.deletion.DO_NOTHING,
                                related_name="+",
                                to="jobs.outputconnection",
                            ),
                        ),
                        ("activity", models.TextField()),
                        ("entity", models.TextField()),
                        ("bytes", models.BigIntegerField(null=True)),
                        ("result_code", models.TextField(db_default="", default="")),
                        ("result_description", models.TextField(db_default="", default="")),
                    ],
                    options={
                        "verbose_name_plural": "activities",
                        "indexes": [models.Index(fields=["repository", "started_at"], name="activity_of_repository")],
                    },
                ),
            ],
        ),
    ]
