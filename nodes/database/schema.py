"""The version of the database's tables: missing tables are created, newer and unfinished older ones are refused."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from django.apps import apps
from django.core.management import call_command
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from nodes.database.connections import without_timeouts

# The label of an application, and the name of a migration.
_Key = tuple[str, str]

# Packages of crawlctl whose applications have tables.
_OURS: Final = ("crawlctl", "jobs", "nodes")
# Largest number of nodes or migrations that a refusal names.
_NAMED: Final = 10


class SchemaRefused(Exception):
    """This program cannot work with the tables of the database; nothing was changed."""


class SchemaTooNew(SchemaRefused):
    """The database was made by a newer version of crawlctl."""

    def __init__(self, migrations: list[str]) -> None:
        super().__init__(
            f"The database was made by a newer version of crawlctl (it knows {_shown(migrations)}): "
            "run that version, or give this one a database of its own."
        )


class SchemaTooOld(SchemaRefused):
    """The database was made by an earlier state of the development, whose tables this program cannot upgrade."""

    def __init__(self, migrations: list[str]) -> None:
        super().__init__(
            "The database was made by an earlier state of crawlctl's development, which this version cannot upgrade "
            f"(it lacks {_shown(migrations)}): upgrade it in two steps as UPGRADING.md says, or give this version a "
            "database of its own."
        )


class SchemaBehind(Exception):
    """The database's tables are older than this program; nothing was changed."""

    def __init__(self) -> None:
        super().__init__(
            "The database's tables are not those of this version of crawlctl: run `crawlctl migrate` first."
        )


class NodesBeat(Exception):
    """Managers or workers use the tables that would be changed; nothing was changed."""

    def __init__(self, nodes: list[str]) -> None:
        super().__init__(
            f"The tables are in use by {_shown(nodes)}. Stop these nodes first, then run `crawlctl migrate` "
            "(docs/upgrading.md). A node that was killed counts until its timeout has passed. "
            "With --force the tables are changed anyway, and counts may be wrong afterwards: "
            "`crawlctl check_counters --repair` makes them right."
        )


# Columns that exist in every version.
_BEATING: Final = """
SELECT kind || ' ' || name || ' on ' || host FROM nodes_node
 WHERE status IN ('starting', 'running', 'draining')
   AND heartbeat_at > clock_timestamp() - timeout_seconds * interval '1 second'
 ORDER BY kind, name, host
"""

# Number of the advisory lock of the process that creates the tables. No other lock has this number.
_MIGRATING: Final = 7_215_608_411


def make_ready() -> bool:
    """
    Migrate the database's tables to this program's version; return True if anything was migrated.

    If several processes find a new database at the same time, one creates the tables and the others wait.

    Raises:
        SchemaRefused: the tables are those of a newer version, or too old.
    """
    if not _is_behind():
        return False
    connection = connections[DEFAULT_DB_ALIAS]
    with connection.cursor() as cursor, without_timeouts(connection.connection):
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
        SchemaRefused: the tables are those of a newer version, or too old.
        SchemaBehind: the tables lack migrations.
    """
    if _is_behind():
        raise SchemaBehind


def refuse_other_versions() -> None:
    """
    Check that this program can upgrade the tables. Called before they are changed.

    Raises:
        SchemaRefused: the tables are those of a newer version, or too old.
    """
    _read_applied()


def refuse_while_nodes_beat(*, has_target: bool = False) -> None:
    """
    Check that no node uses the tables that would be changed; `has_target` if older tables are requested.

    Raises:
        NodesBeat: nodes use the tables, and there is something to change.
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
    """
    True if this program has a migration that the tables lack.

    A migration that replaces others counts as applied if all replaced migrations are applied. Each replaced migration
    counts as applied if the new one is.

    Raises:
        SchemaRefused: the tables are those of a newer version, or too old.
    """
    known, applied = _migrations(), _read_applied()
    for key in applied & known.keys():
        applied |= set(known[key].replaces)
    return any(
        key not in applied and not (migration.replaces and applied.issuperset(migration.replaces))
        for key, migration in known.items()
    )


def _read_applied() -> set[_Key]:
    """
    Return the applied migrations of all applications.

    Raises:
        SchemaRefused: the tables are those of a newer version, or too old.
    """
    known, applied = _migrations(), set(MigrationRecorder(connections[DEFAULT_DB_ALIAS]).applied_migrations())
    replaced = {old for migration in known.values() for old in migration.replaces}
    ours = {app.label for app in apps.get_app_configs() if app.name.split(".")[0] in _OURS}
    if newer := {(app, name) for app, name in applied if app in ours} - known.keys() - replaced:
        raise SchemaTooNew(_names(newer))
    for key, migration in known.items():
        lacking = set(migration.replaces) - applied
        if key not in applied and lacking and lacking != set(migration.replaces):
            raise SchemaTooOld(_names(lacking))
    return applied


@cache
def _migrations() -> Mapping[_Key, Migration]:
    """Return the migrations of this program. They are read once: a process does not change its own files."""
    # Loaded without the database: the loader fails if the database has only some of the replaced migrations.
    return MigrationLoader(None).disk_migrations


def _names(migrations: Iterable[_Key]) -> list[str]:
    return sorted(f"{app}.{name}" for app, name in migrations)


def _shown(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
