"""The content of the page of settings: the stored values, their authors, and the values of each live node."""

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobs.settings.table import TABLE
from nodes.lifecycle import LIVE_STATUSES
from nodes.models import Node, SettingsVersion
from nodes.settings import versions
from nodes.settings.declaration import Setting
from nodes.settings.effective import Source

_VERSIONS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """
    The last report of a live node about its settings. `values` and `sources` are by path. The settings in `waiting`
    apply only after the next start of the node.
    """

    id: uuid.UUID
    kind: str
    name: str
    scope: str
    version: int
    values: Mapping[str, Any]
    sources: Mapping[str, str]
    waiting: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SettingLine:
    """
    One setting for the cluster: `value` (in JSON) applies to nodes without another value.

    `apart` are the live nodes with a different value.
    """

    setting: Setting[Any]
    value: object
    source: Source
    apart: Sequence[NodeSettings]


@dataclass(frozen=True, slots=True)
class VersionLine:
    version: int
    made_by: str
    at: dt.datetime
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SettingsPage:
    """
    The page; `version` is 0 if no settings were stored yet.

    `ignored` are the reasons why stored settings have no effect in this release, by path.
    """

    version: int
    document: Mapping[str, Any]
    ignored: Mapping[str, Sequence[str]]
    lines: Sequence[SettingLine]
    nodes: Sequence[NodeSettings]
    history: Sequence[VersionLine]


def read_settings_page() -> SettingsPage:
    stored = versions.newest(TABLE)
    history = [
        VersionLine(row.version, row.made_by, row.at, row.document)
        for row in SettingsVersion.objects.all()[:_VERSIONS_SHOWN]
    ]
    nodes = [
        _node(node)
        for node in Node.objects.filter(status__in=LIVE_STATUSES).exclude(settings={}).order_by("scope", "kind", "name")
    ]
    document = history[0].document if history else {}
    return SettingsPage(
        version=stored.version,
        document=document,
        ignored=stored.ignored,
        lines=[_line(setting, stored.values, nodes) for setting in TABLE.stored],
        nodes=nodes,
        history=history,
    )


def read_version(version: int) -> VersionLine | None:
    """Return one version of the stored settings; None if it does not exist."""
    row = SettingsVersion.objects.filter(pk=version).first()
    return None if row is None else VersionLine(row.version, row.made_by, row.at, row.document)


def _line(setting: Setting[Any], said: Mapping[str, Any], nodes: Sequence[NodeSettings]) -> SettingLine:
    value = setting.as_json(said.get(setting.path, setting.default))
    # A node of another release may not know the setting.
    apart = [node for node in nodes if node.values.get(setting.path, value) != value]
    return SettingLine(
        setting=setting,
        value=value,
        source=Source.STORED if setting.path in said else Source.DEFAULT,
        apart=apart,
    )


def _node(node: Node) -> NodeSettings:
    report = node.settings
    return NodeSettings(
        id=node.pk,
        kind=node.kind,
        name=node.name,
        scope=node.scope,
        version=report.get("version", 0),
        values=report.get("values", {}),
        sources=report.get("sources", {}),
        waiting=report.get("waiting", {}),
    )
