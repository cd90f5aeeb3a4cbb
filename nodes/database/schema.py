"""The version of the database's tables: missing tables are created, and newer ones refused."""

from typing import Final

from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.executor import MigrationExecutor

from nodes.database.connections import unhurried

_OURS = frozenset({"jobs", "nodes", "distributed", "crawlctl"})


class SchemaTooNew(Exception):
    """The database was made by a newer version of crawlctl; nothing was changed."""

    def __init__(self, migrations: list[str]) -> None:
        super().__init__(
            f"The database was made by a newer version of crawlctl (it knows {', '.join(migrations)}): "
            "run that version, or give this one a database of its own."
        )


class SchemaBehind(Exception):
    """The database's tables are older than this program; nothing was changed."""

    def __init__(self) -> None:
        super().__init__(
            "The database's tables are not those of this version of crawlctl: run `manage.py migrate` first."
        )


class NodesBeat(Exception):
    """Managers or workers use the tables that would be changed; nothing was changed."""

    def __init__(self, nodes: list[str]) -> None:
        shown = ", ".join(nodes[:_NAMED]) + (f" and {len(nodes) - _NAMED} more" if len(nodes) > _NAMED else "")
        super().__init__(
            f"The tables are in use by {shown}. Stop these nodes first, then run `manage.py migrate` "
            "(docs/upgrading.md). A node that was killed counts until its timeout has passed. "
            "With --force the tables are changed all the same, and counts may be wrong afterwards: "
            "`manage.py check_counters --repair` makes them right."
        )


# Nodes that a refusal names.
_NAMED: Final = 10
# Columns that exist in every version.
_BEATING: Final = """
SELECT kind || ' ' || name || ' on ' || host FROM nodes_node
 WHERE status IN ('starting', 'running', 'draining')
   AND heartbeat_at > clock_timestamp() - timeout_seconds * interval '1 second'
 ORDER BY kind, name, host
"""

# The advisory lock of the process that creates the tables; no other lock has this number.
_MIGRATING: Final = 7_215_608_411


def make_ready() -> bool:
    """
    Migrate the database's tables to this program's version; return True if anything was migrated.

    If several processes find a new database at once, one creates the tables and the others wait.

    Raises:
        SchemaTooNew: the database knows migrations that this program does not.
    """
    if not _is_behind():
        return False
    connection = connections[DEFAULT_DB_ALIAS]
    with connection.cursor() as cursor, unhurried(connection.connection):
        cursor.execute("SELECT pg_advisory_lock(%s)", [_MIGRATING])
        try:
            if not _is_behind():
                return False
            call_command("migrate", verbosity=0, interactive=False)
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [_MIGRATING])
    return True


def require_current() -> None:
    """
    Check that the tables have this program's version. A daemon calls it before it joins.

    Raises:
        SchemaTooNew: the database knows migrations that this program does not.
        SchemaBehind: it lacks some.
    """
    if _is_behind():
        raise SchemaBehind


def refuse_newer() -> None:
    """
    Check that the tables are not newer than this program. Called before they are changed.

    Raises:
        SchemaTooNew: the database knows migrations that this program does not.
    """
    _read_state()


def refuse_while_nodes_beat(*, has_target: bool = False) -> None:
    """
    Check that no node uses the tables that would be changed; `has_target` if older tables are requested.

    Raises:
        NodesBeat: some nodes do, and there is something to change.
    """
    connection = connections[DEFAULT_DB_ALIAS]
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('nodes_node') IS NOT NULL")
        (has_nodes,) = cursor.fetchone()
        if not has_nodes or not (has_target or _is_behind()):
            return
        cursor.execute(_BEATING)
        beating = [name for (name,) in cursor.fetchall()]
    if beating:
        raise NodesBeat(beating)


def _is_behind() -> bool:
    executor = _read_state()
    return bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))


def _read_state() -> MigrationExecutor:
    executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
    unknown = sorted(
        f"{app}.{name}"
        for app, name in executor.loader.applied_migrations
        if app in _OURS and (app, name) not in executor.loader.disk_migrations
    )
    if unknown:
        raise SchemaTooNew(unknown)
    return executor
