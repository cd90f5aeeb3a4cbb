"""
Empties the database after a test that commits, in a few milliseconds.

Django truncates every table, which creates some 400 files, and then writes content types, permissions and roles again.
That takes a third of a second after each of many hundred tests. Here a table is emptied if the test left rows in it,
and rows written by `migrate` stay unless the test changed them. Only large tables are truncated: deleted rows stay on
disk for a while, and would slow later tests. (A round reads the states of lanes page by page, and a step of 32 pages must
reach the rows of a test.)

Django's connection stays open for the next test, and prepares its two statements once. A new backend of PostgreSQL would
read the definitions of all tables again, which costs ten times as much as the statements.
"""

from typing import Any, Final

import psycopg
from django.db import OperationalError, connection
from django.test import TransactionTestCase

# Tables that handlers of `post_migrate` fill. Django calls these again after it has truncated the tables.
_WRITTEN_BY_MIGRATE: Final = ("auth_group", "auth_group_permissions", "auth_permission", "django_content_type")
# Tables whose triggers refuse to be truncated.
_NOT_TRUNCATED: Final = ("jobs_evidenceblock", "jobs_evidencechain")
LARGE: Final = 2**17  # bytes of a table: 16 pages

_truncate = TransactionTestCase._fixture_teardown


class Emptying:
    """An emptier of one process' test database."""

    def __init__(self) -> None:
        self._tables: list[str] = []
        self._as_migrated = ""

    def empty(self, test_case: TransactionTestCase) -> None:
        """Leave the database as `TransactionTestCase._fixture_teardown` does."""
        try:
            self._empty(test_case)
        except (psycopg.OperationalError, OperationalError):
            # The test has ended the backend of the connection.
            connection.close()
            self._empty(test_case)

    def _empty(self, test_case: TransactionTestCase) -> None:
        if not self._tables or self._what_migrate_wrote() != self._as_migrated:
            with connection.cursor() as cursor:
                cursor.execute("; ".join(f"DELETE FROM {table}" for table in _NOT_TRUNCATED))
            _truncate(test_case)
            known = set(connection.introspection.django_table_names(only_existing=True, include_views=False))
            self._tables = sorted(known - set(_WRITTEN_BY_MIGRATE))
            self._as_migrated = self._what_migrate_wrote()
        else:
            self._delete()

    def _what_migrate_wrote(self) -> str:
        rows = " || ".join(
            f"(SELECT md5(string_agg({table}::text, E'\\n' ORDER BY {table}::text)) FROM {table})"
            for table in _WRITTEN_BY_MIGRATE
        )
        return str(_first_row(f"SELECT {rows}")[0])

    def _delete(self) -> None:
        """Truncate the large tables, and delete the rows of the small ones."""
        states = [f"EXISTS (SELECT FROM {table}), pg_relation_size('{table}') > {LARGE}" for table in self._tables]
        answers = _first_row(f"SELECT {', '.join(states)}")
        filled = [table for table, is_filled in zip(self._tables, answers[::2], strict=True) if is_filled]
        large = [table for table, is_large in zip(self._tables, answers[1::2], strict=True) if is_large]
        large = [table for table in large if table not in _NOT_TRUNCATED]
        # In one transaction, because foreign keys are checked at its end.
        statements = [f"DELETE FROM {table}" for table in filled if table not in large]
        if large:
            # CASCADE also empties the tables that refer to them, none of which has rows written by `migrate`.
            statements.insert(0, f"TRUNCATE {', '.join(large)} CASCADE")
        if statements:
            with connection.cursor() as cursor:
                cursor.execute("; ".join(statements))


def _first_row(query: str) -> tuple[Any, ...]:
    connection.ensure_connection()
    # Django's own cursors do not prepare statements.
    with psycopg.Cursor(connection.connection) as cursor:
        found: tuple[Any, ...] = cursor.execute(query, prepare=True).fetchone()
        return found
