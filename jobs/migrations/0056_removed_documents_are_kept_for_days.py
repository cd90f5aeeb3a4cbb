"""
Tombstones: removed documents, in partitions by day, so that a day is dropped in milliseconds.

Django knows the table and not its partitions (as of `jobs_activity`). The first days are made here, since a one-shot
may begin at once.
"""

from django.db import migrations, models

_MAKE = """
CREATE TABLE jobs_tombstone (
    removed_at timestamp with time zone NOT NULL,
    job_id bigint NOT NULL,
    run_no integer NOT NULL,
    output_id bigint NOT NULL,
    hash uuid NOT NULL,
    cause text NOT NULL,
    seed_id bigint NOT NULL,
    lane_id bigint NOT NULL,
    bin_name text NOT NULL,
    identifier text NOT NULL,
    item_run integer NOT NULL,
    depth integer NOT NULL,
    redirects smallint NOT NULL,
    outcome smallint NOT NULL,
    result_code text NOT NULL,
    version text NOT NULL,
    validators text NOT NULL,
    fetched_at timestamp with time zone,
    changed_at timestamp with time zone,
    targets uuid[],
    is_redirect boolean,
    left_output boolean NOT NULL,
    title text,
    description text,
    text text,
    content_type text,
    language text,
    text_fetched_at timestamp with time zone
) PARTITION BY RANGE (removed_at);
CREATE INDEX tombstone_of_run ON jobs_tombstone (job_id, run_no, hash);
CREATE TABLE jobs_tombstone_default PARTITION OF jobs_tombstone DEFAULT;
DO $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
    day date;
BEGIN
    FOR day IN SELECT today + ahead FROM generate_series(0, 7) AS ahead LOOP
        EXECUTE format(
            'CREATE TABLE %I PARTITION OF jobs_tombstone FOR VALUES FROM (%L) TO (%L)',
            'jobs_tombstone_' || to_char(day, 'YYYYMMDD'),
            day::timestamp AT TIME ZONE 'UTC',
            (day + 1)::timestamp AT TIME ZONE 'UTC');
    END LOOP;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0055_names_are_found_by_their_words")]

    operations = [
        migrations.RunSQL(_MAKE, "DROP TABLE jobs_tombstone"),
        migrations.CreateModel(
            name="Restoration",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("job_id", models.BigIntegerField(db_index=True)),
                ("run_no", models.PositiveIntegerField()),
                ("since", models.DateTimeField(null=True)),
                ("cause", models.CharField(blank=True, max_length=20)),
                ("asked_at", models.DateTimeField()),
                ("asked_by", models.CharField(max_length=150)),
                ("ended_at", models.DateTimeField(null=True)),
                ("restored", models.PositiveBigIntegerField(default=0)),
                ("unread", models.PositiveBigIntegerField(default=0)),
                ("refused", models.TextField(blank=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("ended_at__isnull", True)), fields=["id"], name="restoration_is_open"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="DeletedJob",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=200)),
                ("run_no", models.PositiveIntegerField()),
                ("deleted_at", models.DateTimeField(db_index=True)),
                ("rows", models.JSONField()),
            ],
        ),
    ]
