"""Django's database settings: the database of DATABASE_URL, or the embedded one."""

import datetime as dt
from pathlib import Path
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import ProgrammingError

from nodes.database.connections import Limits

# Longest waits of a page or a command for its database, in any failure of the database. Daemons have limits of their
# own, which follow from their timeouts.
_STATEMENT: Final = dt.timedelta(seconds=30)
_LIMITS: Final = Limits(
    connect_within=dt.timedelta(seconds=5),
    unheard_for=dt.timedelta(seconds=5),
    statement=_STATEMENT,
    lock=dt.timedelta(seconds=10),
    idle_in_transaction=dt.timedelta(seconds=30),
)
_OPTIONS: Final = {
    **_LIMITS.parameters(),
    "session": _LIMITS.settings(),
    "wait_at_most": _STATEMENT + dt.timedelta(seconds=2),
}


def database_from_url(url: str, *, var_dir: Path, companion: str = "") -> dict[str, Any]:
    """
    Return Django's settings of the database at `url` (a libpq URI), or of the embedded one for ''. The module
    `companion` runs as long as the embedded server.

    Raises:
        ImproperlyConfigured: `url` is not a PostgreSQL address. The message shows a valid one.
    """
    if not url:
        return {
            **_ENGINE,
            "NAME": "crawlctl",
            "OPTIONS": {"directory": str(var_dir / "postgres"), "companion": companion, **_OPTIONS},
        }
    if not url.startswith(("postgresql://", "postgres://")):
        raise ImproperlyConfigured(f"DATABASE_URL must begin with postgresql://, like {_EXAMPLE}")
    try:
        facts = conninfo_to_dict(url)
    except ProgrammingError as error:
        raise ImproperlyConfigured(
            f"DATABASE_URL cannot be read ({str(error).strip()}); it looks like {_EXAMPLE}"
        ) from None
    return {
        **_ENGINE,
        "NAME": facts.pop("dbname", "crawlctl"),
        "USER": facts.pop("user", ""),
        "PASSWORD": facts.pop("password", ""),
        "HOST": facts.pop("host", ""),
        "PORT": str(facts.pop("port", "")),
        "OPTIONS": {**facts, **_OPTIONS},
    }


_EXAMPLE = "postgresql://user:password@host:5432/crawlctl"
# Django checks that a kept connection still answers before a request reuses it.
_ENGINE: Final = {"ENGINE": "crawlctl.postgres.backend", "CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}
