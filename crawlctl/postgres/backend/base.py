"""
Django's PostgreSQL backend that brings up the embedded server when it first connects.

Commands that never connect (`help`, `makemigrations --check`) so never start a server, and no list
of such commands has to be kept.
"""

import sys
from pathlib import Path
from typing import Any

from django.db.backends.postgresql import base
from psycopg.conninfo import conninfo_to_dict

from crawlctl.postgres import lifetime


class DatabaseWrapper(base.DatabaseWrapper):
    """`settings_dict["OPTIONS"]["directory"]` is where the embedded server keeps its data."""

    def get_connection_params(self) -> dict[str, Any]:
        options = dict(self.settings_dict["OPTIONS"])
        directory = Path(options.pop("directory"))
        dsn = lifetime.ensure_running(directory, announce=_announce)
        facts = conninfo_to_dict(dsn)
        self.settings_dict["HOST"] = facts["host"]
        self.settings_dict["PORT"] = str(facts.get("port", ""))
        self.settings_dict["USER"] = facts.get("user", "")
        # A test database is another name on the same server.
        name = self.settings_dict["NAME"] or facts["dbname"]
        self.settings_dict["NAME"] = name
        whole = self.settings_dict
        self.settings_dict = {**whole, "OPTIONS": options}
        try:
            return super().get_connection_params()
        finally:
            self.settings_dict = whole


def _announce(line: str) -> None:
    sys.stderr.write(f"{line}\n")
