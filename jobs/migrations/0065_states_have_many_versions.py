"""
The planner expects many rows of each lane and bin state, as many as an open snapshot keeps versions.

It takes effect with the next ANALYZE of the tables, which autovacuum does soon after each change of their statistics.
"""

from django.db import migrations

TABLES = (("jobs_lanestate", "lane_id"), ("jobs_binstate", "bin_id"))


class Migration(migrations.Migration):

    dependencies = [
        ("jobs", "0064_batches_have_no_deadline"),
    ]

    operations = [
        migrations.RunSQL(
            [f"ALTER TABLE {table} ALTER COLUMN {column} SET (n_distinct = -0.1)" for table, column in TABLES],
            [f"ALTER TABLE {table} ALTER COLUMN {column} RESET (n_distinct)" for table, column in TABLES],
        ),
    ]
