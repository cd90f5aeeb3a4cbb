"""What Django is told of the database: the one of DATABASE_URL, or the embedded one."""

from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import ProgrammingError


def database_from_url(url: str, *, var_dir: Path) -> dict[str, Any]:
    """
    Return Django's settings of the database at `url` (a libpq URI), or of the embedded one for ''.

    Raises:
        ImproperlyConfigured: `url` is no PostgreSQL address; the sentence says what one looks like.
    """
    if not url:
        return {
            "ENGINE": "crawlctl.postgres.backend",
            "NAME": "crawlctl",
            "OPTIONS": {"directory": str(var_dir / "postgres")},
            "CONN_MAX_AGE": 60,
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
        "ENGINE": "django.db.backends.postgresql",
        "NAME": facts.pop("dbname", "crawlctl"),
        "USER": facts.pop("user", ""),
        "PASSWORD": facts.pop("password", ""),
        "HOST": facts.pop("host", ""),
        "PORT": str(facts.pop("port", "")),
        "OPTIONS": facts,
        "CONN_MAX_AGE": 60,
    }


_EXAMPLE = "postgresql://user:password@host:5432/crawlctl"
