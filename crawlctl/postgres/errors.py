"""What can go wrong with the embedded PostgreSQL, as sentences for the person at the terminal."""


class EmbeddedPostgresError(Exception):
    """The embedded PostgreSQL cannot be had; the message says why and what can be done."""


USE_ANOTHER = "set DATABASE_URL to a PostgreSQL 15 or newer to do without the embedded one"
