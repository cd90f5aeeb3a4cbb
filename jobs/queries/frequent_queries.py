"""
Frequent queries of open pages, whose statements are built once, because the ORM needs more time to build a statement
than the server needs to execute it.
"""

from collections.abc import Callable
from typing import Any

from django.db import connection
from django.db.models import QuerySet


class FrequentQuery:
    """
    A query without parameters, from a query set of `values_list`. Its statement is built at its first use.

    Rows are as the driver returns them: JSON is text.
    """

    def __init__(self, ask: Callable[[], QuerySet[Any, Any]]) -> None:
        self._ask = ask
        self._statement: tuple[str, tuple[Any, ...]] | None = None

    def rows(self) -> list[tuple[Any, ...]]:
        """Execute the query, and return its rows."""
        if self._statement is None:
            self._statement = self._ask().query.sql_with_params()
        with connection.cursor() as cursor:
            cursor.execute(*self._statement)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows
