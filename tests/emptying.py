"""
Empties the database after a test that commits, in a few milliseconds.

Django truncates every table, which makes some 400 files anew, and then writes content types, permissions and
roles once more: a third of a second after each of many hundred tests. Here a table is emptied if the test left
something in it, and what `migrate` wrote stays unless the test changed it. Whatever is large is left to Django:
of a table whose rows are deleted the dead ones remain for a while, and a later test would wade through them. (The sweep
goes over states page by page: a look at 32 of them is to meet what a test has put there.)
"""

from typing import Any, Final

from django.db import connection
from django.test import TransactionTestCase

# Written by the handlers of `post_migrate`, which Django calls again after it has truncated them.
_WRITTEN_BY_MIGRATE: Final = ("auth_group", "auth_group_permissions", "auth_permission", "django_content_type")
LARGE: Final = 2**17  # bytes of a table: 16 pages

_truncate = TransactionTestCase._fixture_teardown


class Emptying:
    """Empties the test database of one process."""

    def __init__(self) -> None:
        self._tables: list[str] = []
        self._as_migrated = ""

    def empty(self, test_case: TransactionTestCase) -> None:
        """Leave the database as `TransactionTestCase._fixture_teardown` does."""
        if not self._tables or self._what_migrate_wrote() != self._as_migrated or not self._delete():
            _truncate(test_case)
            known = set(connection.introspection.django_table_names(only_existing=True, include_views=False))
            self._tables = sorted(known - set(_WRITTEN_BY_MIGRATE))
            self._as_migrated = self._what_migrate_wrote()

    def _what_migrate_wrote(self) -> str:
        rows = " || ".join(
            f"(SELECT md5(string_agg({table}::text, E'\\n' ORDER BY {table}::text)) FROM {table})"
            for table in _WRITTEN_BY_MIGRATE
        )
        return str(_first_row(f"SELECT {rows}")[0])

    def _delete(self) -> bool:
        """Delete what the test left, where all of that is small; whether it was."""
        states = [f"EXISTS (SELECT FROM {table}), pg_relation_size('{table}') > {LARGE}" for table in self._tables]
        answers = _first_row(f"SELECT {', '.join(states)}")
        filled = [table for table, is_filled in zip(self._tables, answers[::2], strict=True) if is_filled]
        if any(answers[1::2]):
            return False
        if filled:
            with connection.cursor() as cursor:
                # In one transaction: the foreign keys are looked at when it ends.
                cursor.execute("; ".join(f"DELETE FROM {table}" for table in filled))
        return True


def _first_row(query: str) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        found: tuple[Any, ...] = cursor.fetchone()
        return found
