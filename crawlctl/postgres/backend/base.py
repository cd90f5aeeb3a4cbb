"""
Django's PostgreSQL backend, with connections that are not waited for for ever, and an embedded server if there is to be one.

The embedded server is brought up by the first connection. Commands that never connect (`help`,
`makemigrations --check`) so never start one, and no list of such commands has to be kept.
"""

import sys
from pathlib import Path
from typing import Any, Final

from django.db import OperationalError
from django.db.backends.postgresql import base
from psycopg import IsolationLevel
from psycopg.conninfo import conninfo_to_dict

from crawlctl.postgres import lifetime
from crawlctl.postgres.errors import EmbeddedPostgresError
from nodes.connections import PatientConnection

# Seconds in which a connection that has lain idle has to answer, or it is taken for lost.
_IDLE_PATIENCE: Final = 3.0


class EmbeddedDatabaseAway(OperationalError, EmbeddedPostgresError):
    """The embedded server is unavailable: Django treats this like a server that does not answer."""


class DatabaseWrapper(base.DatabaseWrapper):
    """
    Of `settings_dict["OPTIONS"]`, `directory` is where an embedded server keeps its data, if there is one, and
    `patience` how long an answer is waited for.
    """

    def get_connection_params(self) -> dict[str, Any]:
        whole = self.settings_dict
        options = dict(whole["OPTIONS"])
        patience = options.pop("patience").total_seconds()
        self._gives_up = lambda waited: waited > patience
        directory = options.pop("directory", None)
        if directory is not None:
            self._bring_up(Path(directory))
        self.settings_dict = {**whole, "OPTIONS": options}
        try:
            return super().get_connection_params()
        finally:
            self.settings_dict = whole

    def _bring_up(self, directory: Path) -> None:
        try:
            dsn = lifetime.ensure_running(directory, announce=_announce)
        except EmbeddedPostgresError as error:
            raise EmbeddedDatabaseAway(str(error)) from error
        facts = conninfo_to_dict(dsn)
        self.settings_dict["HOST"] = facts["host"]
        self.settings_dict["PORT"] = str(facts.get("port", ""))
        self.settings_dict["USER"] = facts.get("user", "")
        # A test database is another name on the same server.
        self.settings_dict["NAME"] = self.settings_dict["NAME"] or facts["dbname"]

    def get_new_connection(self, conn_params: dict[str, Any]) -> PatientConnection[Any]:
        # What Django's own does, where neither a pool nor another isolation is asked for.
        self.isolation_level = IsolationLevel.READ_COMMITTED
        connection: PatientConnection[Any] = PatientConnection.connect(**conn_params)
        connection.gives_up = self._gives_up
        return connection

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
