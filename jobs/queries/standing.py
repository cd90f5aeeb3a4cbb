"""Questions of the ORM that open pages ask all the time: to word one costs more than to have it answered."""

from collections.abc import Callable
from typing import Any

from django.db import connection
from django.db.models import QuerySet


class Standing:
    """
    A question without parameters, of a query set of `values_list`. Its statement is worded when it is first asked.

    Rows are as the driver gives them: JSON is text.
    """

    def __init__(self, ask: Callable[[], QuerySet[Any, Any]]) -> None:
        self._ask = ask
        self._statement: tuple[str, tuple[Any, ...]] | None = None

    def rows(self) -> list[tuple[Any, ...]]:
        """Ask, and return the answer as of now."""
        if self._statement is None:
            self._statement = self._ask().query.sql_with_params()
        with connection.cursor() as cursor:
            cursor.execute(*self._statement)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows
