"""
The authority that asks a PostgreSQL database of any application with a configured query.

The query has one parameter, `%(user)s`, and each row has a token in its first column. It runs in a read-only transaction
with a time limit at the server. Its text is a single statement: the server refuses several statements with a parameter.
"""

from collections.abc import Mapping
from typing import Any, Final

import psycopg
from django.utils.translation import gettext_lazy as _
from psycopg.conninfo import make_conninfo

from jobs.connectors.authority.kind import NOT_FOUND, Access, AuthorityKind, Limits, Status, Unreachable
from jobs.connectors.schema import Field, FieldKind, Schema

_PARAMETER: Final = "%(user)s"
_LONGEST: Final = 10_000
# Largest number of tokens of one user.
_MOST: Final = 10_000
# Longest text of an error of the server in an answer (characters).
_SHOWN: Final = 200

SCHEMA: Final = Schema(
    (
        Field(name="host", is_destination=True, kind=FieldKind.TEXT, label=_("Server"), is_required=True),
        Field(
            name="port",
            is_destination=True,
            kind=FieldKind.WHOLE,
            label=_("Port"),
            least=1,
            most=65_535,
            help=_("If empty, port 5432 is used."),
        ),
        Field(name="database", kind=FieldKind.TEXT, label=_("Database"), is_required=True),
        Field(name="username", kind=FieldKind.TEXT, label=_("User"), is_required=True),
        Field(name="password", kind=FieldKind.SECRET, label=_("Password")),
        Field(
            name="tls",
            is_destination=True,
            kind=FieldKind.CHOICE,
            label=_("Encryption"),
            choices=(
                ("prefer", _("if the server offers it")),
                ("require", _("required")),
                ("verify-full", _("required, with a checked certificate")),
                ("disable", _("none")),
            ),
        ),
        Field(
            name="query",
            kind=FieldKind.TEXT,
            label=_("Query"),
            help=_(
                "SELECT with %(user)s for the name of the user. The first column of each row is a token. "
                "Without a row, the user is unknown. A row with NULL means a known user without a token. Write "
                "each other percent sign twice."
            ),
            is_required=True,
        ),
    )
)


class SqlAuthority:
    """The connections to one database. Each answers one question at a time."""

    def __init__(self, values: Mapping[str, Any], limits: Limits) -> None:
        self._address = make_conninfo(
            "",
            host=values["host"],
            port=values.get("port") or 5432,
            dbname=values["database"],
            user=values["username"],
            password=values.get("password") or None,
            sslmode=values.get("tls") or "prefer",
            connect_timeout=max(2, round(limits.seconds)),
            application_name="crawlctl authority",
        )
        self._query, self._seconds = values["query"], limits.seconds
        self._idle: list[psycopg.AsyncConnection[Any]] = []

    async def access(self, user: str) -> Access:
        if "\0" in user:
            # No text of PostgreSQL has this character.
            return NOT_FOUND
        rows = await self._ask(user)
        if not rows:
            return NOT_FOUND
        tokens = {str(row[0]) for row in rows if row[0] is not None}
        return Access(Status.AUTHORIZED, tuple(sorted(tokens)))

    async def check(self) -> None:
        await self._ask("")

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def _ask(self, user: str) -> list[tuple[Any, ...]]:
        while self._idle:
            connection = self._idle.pop()
            try:
                return await self._ask_on(connection, user)
            except psycopg.OperationalError as error:
                if not connection.closed:
                    # No retry: the server answered with an error, so another connection would fail, too.
                    await connection.close()
                    raise _unreachable(error) from None
        try:
            connection = await psycopg.AsyncConnection.connect(self._address, prepare_threshold=None)
            return await self._ask_on(connection, user)
        except (psycopg.Error, OSError, UnicodeError) as error:
            raise _unreachable(error) from None

    async def _ask_on(self, connection: psycopg.AsyncConnection[Any], user: str) -> list[tuple[Any, ...]]:
        is_done = False
        try:
            await connection.set_read_only(True)
            async with connection.transaction(), connection.cursor() as cursor:
                limit = str(max(1, round(self._seconds * 1000)))
                await cursor.execute("SELECT set_config('statement_timeout', %s, true)", [limit])
                await cursor.execute(self._query.encode(), {"user": user})
                if cursor.description is None:
                    raise Unreachable("The query returns no rows. Write a SELECT.")
                rows = await cursor.fetchmany(_MOST + 1)
            is_done = True
        finally:
            # After a cancelled question, its statement may still run, so the connection cannot be used again.
            if is_done:
                self._idle.append(connection)
            else:
                await connection.close()
        if len(rows) > _MOST:
            raise Unreachable(f"The query returns more than {_MOST} rows for one user.")
        return rows


def _unreachable(error: Exception) -> Unreachable:
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    text = said or str(error) or type(error).__name__
    return Unreachable(f"The database says: {' '.join(text.split())[:_SHOWN]}.")


def _judge(values: Mapping[str, Any]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in ("host", "database", "username"):
        if not values[name].strip() or not values[name].isprintable():
            found[name] = ["Write one line of text."]
    query = values["query"]
    if _PARAMETER not in query or len(query) > _LONGEST or "\0" in query:
        found["query"] = [f"Write a SELECT with {_PARAMETER}, at most {_LONGEST} characters."]
    elif "%" in query.replace(_PARAMETER, "").replace("%%", ""):
        found["query"] = [f"Write each % twice that does not belong to {_PARAMETER}."]
    return found


SQL: Final = AuthorityKind(
    name="sql", label=_("SQL (PostgreSQL)"), configuration=SCHEMA, open=SqlAuthority, judge=_judge
)
