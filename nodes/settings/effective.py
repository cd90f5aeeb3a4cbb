"""
The effective value of each setting: the first one found on the command line, in the environment, in the settings JSON
of the database, or else its default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Self, TypeVar

from nodes.settings.declaration import Applies, InvalidSettings, Setting, Table, Values, breaches

_T = TypeVar("_T")


class Source(StrEnum):
    """The place where a value was set."""

    COMMAND_LINE = "command line"
    ENVIRONMENT = "environment"
    STORED = "stored"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effective:
    """
    The settings of one process. `version` is that of the settings JSON in use, 0 for none. `waiting` are the settings
    of that version that take effect only at the next start.
    """

    table: Table
    command_line: Values = field(default_factory=dict)
    environment: Values = field(default_factory=dict)
    stored: Values = field(default_factory=dict)
    version: int = 0
    waiting: Values = field(default_factory=dict)

    def __getitem__(self, setting: Setting[_T]) -> _T:
        value: _T = self._values_with(setting).get(setting.path, setting.default)
        return value

    def source(self, setting: Setting[Any]) -> Source:
        for source, values in self._places():
            if setting.path in values:
                return source
        return Source.DEFAULT

    def check(self) -> None:
        """
        Check that values set in several places are consistent.

        Raises:
            InvalidSettings: they are not. The message names the place of each value.
        """
        problems = breaches(self.table, self.__getitem__)
        if problems:
            raise InvalidSettings({path: [*sentences, self._origins(path)] for path, sentences in problems.items()})

    def starting_with(self, stored: Values, *, version: int) -> Self:
        """Return the settings of a process that starts with this version of the settings JSON."""
        return replace(self, stored=stored, version=version, waiting={})

    def taking_up(self, stored: Values, *, version: int) -> Self:
        """
        Return the settings of a running process that receives a newer version.

        A setting that takes effect at the next start keeps its value. A setting that would contradict it waits too: a
        node with a short timeout cannot begin to beat rarely.
        """
        later = {setting.path for setting in self.table.stored if setting.applies == Applies.AT_NEXT_START}
        taken = self.starting_with(_mixed(stored, kept=self.stored, paths=later), version=version)
        for rule in self.table.rules:
            if rule.breach(taken.__getitem__):
                later.update(rule.paths)
        taken = self.starting_with(_mixed(stored, kept=self.stored, paths=later), version=version)
        started = self.starting_with(stored, version=version)
        waiting = {
            setting.path: started[setting] for setting in self.table.stored if started[setting] != taken[setting]
        }
        return replace(taken, waiting=waiting)

    def report(self) -> dict[str, Any]:
        """Return a node's report of its settings, as JSON: values and sources by path."""
        return {
            "version": self.version,
            "values": {setting.path: setting.as_json(self[setting]) for setting in self.table.stored},
            "sources": {setting.path: str(self.source(setting)) for setting in self.table.stored},
            "waiting": {path: self.table[path].as_json(value) for path, value in self.waiting.items()},
        }

    def _values_with(self, setting: Setting[Any]) -> Values:
        return next((values for _source, values in self._places() if setting.path in values), {})

    def _places(self) -> tuple[tuple[Source, Values], ...]:
        return (
            (Source.COMMAND_LINE, self.command_line),
            (Source.ENVIRONMENT, self.environment),
            (Source.STORED, self.stored),
        )

    def _origins(self, path: str) -> str:
        paths = next(rule.paths for rule in self.table.rules if rule.paths[0] == path)
        origins = ", ".join(f"{each} comes from {self._origin(self.table[each])}" for each in paths)
        return f"({origins}.)"

    def _origin(self, setting: Setting[Any]) -> str:
        match self.source(setting):
            case Source.COMMAND_LINE:
                return "the command line"
            case Source.ENVIRONMENT:
                return f"the environment ({setting.environment})"
            case Source.STORED:
                return f"version {self.version} of the stored settings"
            case Source.DEFAULT:
                return "its default"


def _mixed(newer: Values, *, kept: Values, paths: set[str]) -> Mapping[str, Any]:
    """Return the new values, except that these paths keep their earlier values."""
    return {path: value for path, value in newer.items() if path not in paths} | {
        path: value for path, value in kept.items() if path in paths
    }
