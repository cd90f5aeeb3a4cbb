"""Changes that PostgreSQL undoes in favour of another transaction."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

# SQLSTATE codes of a deadlock and of a serialization failure.
CODES = ("40P01", "40001")


@contextmanager
def losing(code: str, *, words: str = "UPDATE ") -> Iterator[None]:
    """Let the server itself raise the error in place of each statement with these words."""

    def fail(execute, sql, params, *more):
        if words in sql:
            sql, params = f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$", None
        return execute(sql, params, *more)

    with connection.execute_wrapper(fail):
        yield
