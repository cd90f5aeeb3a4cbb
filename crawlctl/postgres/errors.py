"""Errors of the embedded PostgreSQL, as sentences for the person at the terminal."""


class EmbeddedPostgresError(Exception):
    """The embedded PostgreSQL is not available. The message gives the reason and the next step."""


USE_ANOTHER = "set DATABASE_URL to a PostgreSQL 15 or newer to do without the embedded one"
