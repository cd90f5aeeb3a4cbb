"""Simulates a jump of the database's clock while nothing runs: it moves all stored moments instead."""

import psycopg

# Query for the columns with moments. Blocks and chains of evidence refuse every change, so they are left out.
_COLUMNS = """
SELECT columns.table_name, array_agg(columns.column_name::text)
  FROM information_schema.columns JOIN pg_class AS class ON class.oid = to_regclass(columns.table_name)
 WHERE columns.table_schema = current_schema() AND columns.data_type = 'timestamp with time zone'
   AND columns.is_generated = 'NEVER' AND class.relkind = 'r' AND NOT class.relispartition
   AND columns.table_name ~ '^(jobs|nodes|tasks)_' AND columns.table_name !~ '^jobs_evidence(block|chain)$'
 GROUP BY columns.table_name
"""


def set_clock_back(connection: psycopg.Connection, by) -> None:
    """Move the moments of all tables into the future by this time, or into the past if it is negative."""
    with connection.transaction():
        for table, columns in connection.execute(_COLUMNS).fetchall():
            moved = ", ".join(f"{column} = {column} + %(by)s" for column in columns)
            connection.execute(f"UPDATE {table} SET {moved}", {"by": by})
