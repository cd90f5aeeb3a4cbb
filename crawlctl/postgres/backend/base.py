"""
Django's PostgreSQL backend, with a limit on each wait for an answer, and with the embedded server if configured.

The first connection starts the embedded server. So commands that never connect (`help`, `makemigrations --check`) never
start a server.
"""

import sys
from pathlib import Path
from typing import Any, ClassVar, Final

from django.db import OperationalError
from django.db.backends.postgresql import base
from psycopg import IsolationLevel
from psycopg.conninfo import conninfo_to_dict

from crawlctl.postgres import lifetime
from crawlctl.postgres.backend.idle import IdleConnections
from crawlctl.postgres.errors import EmbeddedPostgresError
from nodes.database.connections import ConnectionWithTimeouts, open_session

# Time in which an idle connection has to answer before it counts as lost (seconds).
_IDLE_PATIENCE: Final = 3.0


class EmbeddedDatabaseAway(OperationalError, EmbeddedPostgresError):
    """The embedded server is unavailable. Django treats this like a server that does not answer."""


class DatabaseWrapper(base.DatabaseWrapper):
    """
    `settings_dict["OPTIONS"]` has `wait_at_most`, the longest wait for an answer. With an embedded server it also has
    `directory`, the home of the server, and `companion`, a module that runs in a separate process as long as the
    server.
    """

    # Connections that earlier requests have closed, and that wait for the next request. None in a process that serves
    # no requests.
    idle: ClassVar[IdleConnections | None] = None
    _parameters: dict[str, Any]

    def get_connection_params(self) -> dict[str, Any]:
        whole = self.settings_dict
        options = dict(whole["OPTIONS"])
        wait_at_most = options.pop("wait_at_most").total_seconds()
        self._gives_up = lambda waited: waited > wait_at_most
        self._session = options.pop("session")
        directory, companion = options.pop("directory", None), options.pop("companion", "")
        if directory is not None:
            self._start_server(Path(directory), companion=companion)
        self.settings_dict = {**whole, "OPTIONS": options}
        try:
            return super().get_connection_params()
        finally:
            self.settings_dict = whole

    def _start_server(self, directory: Path, *, companion: str) -> None:
        try:
            dsn = lifetime.ensure_running(directory, announce=_announce, companion=companion)
        except EmbeddedPostgresError as error:
            raise EmbeddedDatabaseAway(str(error)) from error
        facts = conninfo_to_dict(dsn)
        self.settings_dict["HOST"] = facts["host"]
        self.settings_dict["PORT"] = str(facts.get("port", ""))
        self.settings_dict["USER"] = facts.get("user", "")
        # For a test database, Django has set another name on the same server.
        self.settings_dict["NAME"] = self.settings_dict["NAME"] or facts["dbname"]

    def get_new_connection(self, conn_params: dict[str, Any]) -> ConnectionWithTimeouts[Any]:
        # Django does the same if neither a pool nor another isolation level is configured.
        self.isolation_level = IsolationLevel.READ_COMMITTED
        self._parameters = conn_params
        return self._idle_connection() or open_session(conn_params, settings=self._session, gives_up=self._gives_up)

    def _idle_connection(self) -> ConnectionWithTimeouts[Any] | None:
        """Return an idle connection that still answers, or None."""
        if self.idle is None or (found := self.idle.take(self._parameters)) is None:
            return None
        self.connection = found
        try:
            if self.is_usable():
                return found
        finally:
            self.connection = None
        # The server has ended this connection, and probably also the other idle connections.
        found.close()
        self.idle.close()
        return None

    def _close(self) -> None:
        is_kept = (
            self.idle is not None
            and self.connection is not None
            and not self.in_atomic_block
            and self.idle.give_back(self.connection, self._parameters)
        )
        if not is_kept:
            super()._close()  # type: ignore[misc]

    def is_usable(self) -> bool:
        if self.connection is None:
            return False
        self.connection.gives_up = lambda waited: waited > _IDLE_PATIENCE
        try:
            return super().is_usable()
        finally:
            self.connection.gives_up = self._gives_up


def _announce(line: str) -> None:
    sys.stderr.write(f"{line}\n")
