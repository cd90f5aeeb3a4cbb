"""
A transaction of several statements that needs no statements for BEGIN and COMMIT.

The statements between two syncs of PostgreSQL's pipeline are one transaction. Each of them sees all commits from before
it began, as in any READ COMMITTED transaction. So a flush, which is a frequent transaction, saves two statements and a
round trip. Decision 0013 has the requirements for callers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import psycopg
from psycopg.pq import Format, PipelineStatus
from psycopg.rows import namedtuple_row


class WaitingCursor(psycopg.Cursor[Any]):
    """
    A cursor that has its result once `execute` returns, also inside a pipeline.

    Otherwise an error would appear with a later statement, and `rowcount` would have no value.
    """

    def execute(self, *args: Any, **kwargs: Any) -> Self:
        super().execute(*args, **kwargs)
        # Wait for the result of the statement, as the driver does before it fetches a row.
        self._fetch_pipeline()
        return self


@contextmanager
def implicit_transaction(connection: psycopg.Connection[Any], *, binary: bool = False) -> Iterator[psycopg.Cursor[Any]]:
    """
    Yield a cursor with named rows; its statements are committed at the end, and rolled back after an exception.

    The connection must be in autocommit and outside any transaction. Inside, `connection.transaction()` would commit
    the statements before it, and COPY is not possible.
    """
    try:
        with connection.pipeline(), WaitingCursor(connection, row_factory=namedtuple_row) as cursor:
            cursor.format = Format.BINARY if binary else Format.TEXT
            try:
                yield cursor
            except BaseException:
                # If a statement failed, the server has already ended the transaction.
                if connection.pgconn.pipeline_status == PipelineStatus.ON:
                    cursor.execute("ROLLBACK")
                raise
    finally:
        # If the server ended the session, the driver may wait for an answer that never comes, so this connection is
        # closed.
        if connection.pgconn.pipeline_status != PipelineStatus.OFF:
            connection.close()
