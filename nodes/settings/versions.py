"""
Stored settings: versions of one JSON that applies to all nodes, with less precedence than command line and environment.

A version with an invalid part is not stored. Nodes may have another release than the one that stored it, so each
node ignores the settings that it does not know.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
from django.db import connection as django_connection
from django.db import transaction
from psycopg.types.json import Jsonb

from nodes.errors import Refused
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.models import NodeEvent, SettingsVersion
from nodes.settings.declaration import Setting, Table, Values, as_document, known_part, read_document, read_stored

logger = logging.getLogger(__name__)

_READ_NEWEST: Final[LiteralString] = "SELECT version, document FROM nodes_settingsversion ORDER BY version DESC LIMIT 1"
# Locks: the table against other writers. Readers do not wait.
_ONE_AT_A_TIME: Final = "LOCK TABLE nodes_settingsversion IN SHARE ROW EXCLUSIVE MODE"
# Locks: the node's row NO KEY UPDATE, in a separate transaction.
_REPORT: Final[LiteralString] = "UPDATE nodes_node SET settings = %(report)s WHERE id = %(node_id)s"


@dataclass(frozen=True, slots=True)
class Stored:
    """
    A version of the stored settings; 0 before the first was stored.

    `ignored` are the reasons why parts of it have no effect in this release, by path.
    """

    version: int
    values: Values
    ignored: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """
    A setting whose stored value a new version changes. None means that it is not set, so that the default applies.
    """

    setting: Setting[Any]
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.setting.path} {self._in_words(self.before)} → {self._in_words(self.after)}"

    def as_json(self) -> dict[str, Any]:
        """Return the values before and after as JSON; null is the default."""
        values = {"before": self.before, "after": self.after}
        return {name: None if value is None else self.setting.as_json(value) for name, value in values.items()}

    def _in_words(self, value: object) -> str:
        return "default" if value is None else str(self.setting.as_json(value))


class SettingsChanged(Refused):
    """The newest version is not the one on which the change is based. Nothing was stored."""

    code = "conflict"

    def __init__(self, *, based_on: int, newest: SettingsVersion | None) -> None:
        self.newest = 0 if newest is None else newest.version
        super().__init__(
            f"These settings are based on version {based_on}, but no version is stored. Send ?based_on=0."
            if newest is None
            else (
                f"These settings are based on version {based_on}, but {newest.made_by} has since stored version {newest.version}. Check that "
                "version first."
            )
        )


def lock_newest() -> int:
    """Return the number of the newest version, 0 without one. It stays the newest until the transaction ends."""
    with django_connection.cursor() as cursor:
        cursor.execute(_ONE_AT_A_TIME)
    newest = SettingsVersion.objects.first()
    return 0 if newest is None else newest.version


def read_newest(connection: psycopg.Connection[Any], *, table: Table) -> Stored:
    """Return the stored settings, as far as `table` knows them."""
    row = connection.execute(_READ_NEWEST).fetchone()
    if row is None:
        return Stored(0, {})
    version, document = row
    return _logged(_stored(table, version, document))


def newest(table: Table) -> Stored:
    """Return the stored settings, read over Django's connection."""
    return _logged(_newest(table))


def ignored(table: Table) -> Mapping[str, Sequence[str]]:
    """Return the reasons why parts of the stored settings have no effect here, by path. Log nothing."""
    return _newest(table).ignored


def _newest(table: Table) -> Stored:
    row = SettingsVersion.objects.first()
    return Stored(0, {}) if row is None else _stored(table, row.version, row.document)


def changes(table: Table, before: Values, after: Values) -> Sequence[Change]:
    """Return the settings that differ."""
    return [
        Change(setting, before.get(setting.path), after.get(setting.path))
        for setting in table.stored
        if before.get(setting.path) != after.get(setting.path)
    ]


def preview(table: Table, document: object) -> Sequence[Change]:
    """
    Return the changes that storing this settings JSON would make.

    Raises:
        InvalidSettings: the settings would be refused.
    """
    return changes(table, newest(table).values, read_document(table, document))


@transaction.atomic
def store(table: Table, document: object, *, made_by: str, based_on: int | None = None) -> Sequence[Change]:
    """
    Store a settings JSON as the newest version. Return its changes. Without a change no version is stored.

    Raises:
        InvalidSettings: the JSON is invalid.
        SettingsChanged: `based_on` is not the newest version.
    """
    values = read_document(table, document)
    with django_connection.cursor() as cursor:
        cursor.execute(_ONE_AT_A_TIME)
    last = SettingsVersion.objects.first()
    version = 0 if last is None else last.version
    if based_on is not None and based_on != version:
        raise SettingsChanged(based_on=based_on, newest=last)
    stored = as_document(table, values)
    if stored == ({} if last is None else last.document):
        return []
    changed = changes(table, {} if last is None else known_part(table, last.document), values)
    SettingsVersion.objects.create(version=version + 1, document=stored, made_by=made_by)
    NodeEvent.objects.create(
        scope=CLUSTER_SCOPE,
        kind=NodeEvent.Kind.SETTINGS,
        message=f"settings version {version + 1} by {made_by}: {', '.join(map(str, changed))}",
        detail={"version": version + 1, "by": made_by, "changes": {one.setting.path: one.as_json() for one in changed}},
    )
    return changed


def report(connection: psycopg.Connection[Any], *, node_id: UUID, settings: Mapping[str, Any]) -> None:
    """Store the node's settings, for its page."""
    connection.execute(_REPORT, {"node_id": node_id, "report": Jsonb(dict(settings))})


def _stored(table: Table, version: int, document: object) -> Stored:
    return Stored(version, *read_stored(table, document))


def _logged(stored: Stored) -> Stored:
    for path, reasons in stored.ignored.items():
        logger.warning("ignored %s of stored settings version %d: %s", path, stored.version, " ".join(reasons))
    return stored
