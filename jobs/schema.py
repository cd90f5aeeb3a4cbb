"""The database's tables against this program's: made where they are missing, refused where they are newer."""

from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.executor import MigrationExecutor

_OURS = frozenset({"jobs", "nodes", "crawlctl"})


class SchemaTooNew(Exception):
    """The database was made by a newer version of crawlctl; nothing was changed."""

    def __init__(self, migrations: list[str]) -> None:
        super().__init__(
            f"The database was made by a newer version of crawlctl (it knows {', '.join(migrations)}): "
            "run that version, or give this one a database of its own."
        )


def make_ready() -> bool:
    """
    Bring the database's tables up to this program's; returns whether anything had to be made.

    Raises:
        SchemaTooNew: the database knows migrations that this program does not.
    """
    executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
    unknown = sorted(
        f"{app}.{name}"
        for app, name in executor.loader.applied_migrations
        if app in _OURS and (app, name) not in executor.loader.disk_migrations
    )
    if unknown:
        raise SchemaTooNew(unknown)
    if not executor.migration_plan(executor.loader.graph.leaf_nodes()):
        return False
    call_command("migrate", verbosity=0, interactive=False)
    return True
