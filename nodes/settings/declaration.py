"""
A table of settings: their names, kinds, defaults and meanings.

A setting has a path of two words, by which the settings JSON and the command line name it, and an environment variable.
Some settings exist in the environment only: settings that a process needs before it has a database, and secrets, which
are never in the settings JSON.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from nodes.errors import Invalid
from nodes.settings.kinds import Kind, NotOfThisKind

_T = TypeVar("_T")


class Applies(StrEnum):
    """When a new value of the settings JSON takes effect in a running process."""

    IMMEDIATELY = "immediately"
    AT_NEXT_START = "at next start"
    NEVER = "only through the environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Generic[_T]):
    """One row of the table. `meaning` is a sentence or two. `default` applies if the setting is set nowhere."""

    path: str
    environment: str
    kind: Kind[_T]
    default: _T
    meaning: str
    applies: Applies = Applies.NEVER

    @property
    def section(self) -> str:
        return self.path.partition(".")[0]

    @property
    def name(self) -> str:
        return self.path.partition(".")[2]

    @property
    def can_be_stored(self) -> bool:
        """True if the settings JSON and the command line may set it."""
        return self.applies != Applies.NEVER

    def as_json(self, value: object) -> object:
        """Return a value of this setting as JSON."""
        return self.kind.as_json(value)  # type: ignore[arg-type]  # values are looked up by their setting


# The values set in one place, by path.
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A condition between settings. `breach` returns a sentence, or '' if the condition holds."""

    paths: tuple[str, ...]
    breach: Callable[[Callable[[Setting[Any]], Any]], str]


@dataclass(frozen=True, slots=True)
class Table:
    """All settings, and the rules between them."""

    settings: tuple[Setting[Any], ...]
    rules: tuple[Rule, ...] = ()

    def __getitem__(self, path: str) -> Setting[Any]:
        return next(setting for setting in self.settings if setting.path == path)

    @property
    def stored(self) -> tuple[Setting[Any], ...]:
        """Return the settings that the settings JSON may hold."""
        return tuple(setting for setting in self.settings if setting.can_be_stored)


class SettingError(ValueError):
    """A variable or an option holds an invalid value."""

    def __init__(self, name: str, value: str, expected: str) -> None:
        self.name, self.value, self.expected = name, value, expected
        super().__init__(f"{name} is {value!r}: it must be {expected}")


class InvalidSettings(Invalid):
    """Settings are invalid. `problems` has sentences by the path of the setting."""

    def __str__(self) -> str:
        return self.by_field


def read_environment(table: Table, environment: Mapping[str, str]) -> Values:
    """
    Return the values set in the environment.

    An empty variable counts as unset: compose files and unit files can often only write `NAME=`, not leave the name
    out.

    Raises:
        SettingError: a variable holds an invalid value.
    """
    return {
        setting.path: _from_text(setting, text, name=setting.environment)
        for setting in table.settings
        if (text := environment.get(setting.environment))
    }


def read_options(table: Table, options: Iterable[str]) -> Values:
    """
    Return the values of command-line options, each `PATH=VALUE`. The last option of a path applies.

    Raises:
        InvalidSettings: the setting is unknown, or cannot be set by an option.
        SettingError: its value is invalid.
    """
    values = {}
    for option in options:
        path, _equals, text = option.partition("=")
        setting = next((setting for setting in table.stored if setting.path == path), None)
        if setting is None:
            raise InvalidSettings({path: [_no_such_setting(table, path)]})
        values[path] = _from_text(setting, text, name=path)
    return values


def read_document(table: Table, document: object) -> Values:
    """
    Return the values of a settings JSON, which has sections of settings by name.

    Raises:
        InvalidSettings: the document has unknown keys, invalid values, or values that contradict each other. None of it
            is used.
    """
    values, problems = read_stored(table, document)
    problems = problems or breaches(table, lambda setting: values.get(setting.path, setting.default))
    if problems:
        raise InvalidSettings(problems)
    return values


def known_part(table: Table, document: object) -> Values:
    """Return the part of a settings JSON that this release understands. Another release may have stored it."""
    values, _ignored = read_stored(table, document)
    return values


def read_stored(table: Table, document: object) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the values of a settings JSON, and by path the reasons why its other parts have no effect here."""
    if not isinstance(document, Mapping):
        return {}, {"settings": ["This must be an object of sections, such as cluster and worker."]}
    sections = sorted({setting.section for setting in table.stored})
    known = {setting.path: setting for setting in table.stored}
    problems: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for section, members in document.items():
        if section not in sections:
            problems[section] = [f"Unknown section. Known sections: {', '.join(sections)}."]
        elif not isinstance(members, Mapping):
            problems[section] = ["This must be an object of settings."]
        else:
            for name, value in members.items():
                path = f"{section}.{name}"
                try:
                    values[path] = known[path].kind.from_json(value)
                except KeyError:
                    problems[path] = [_no_such_setting(table, path)]
                except NotOfThisKind:
                    problems[path] = [f"This must be {known[path].kind.allowed}."]
    return values, problems


def as_document(table: Table, values: Values) -> dict[str, dict[str, object]]:
    """Return the settings JSON of these values, in the order of the table."""
    document: dict[str, dict[str, object]] = {}
    for setting in table.stored:
        if setting.path in values:
            document.setdefault(setting.section, {})[setting.name] = setting.as_json(values[setting.path])
    return document


def breaches(table: Table, value: Callable[[Setting[Any]], Any]) -> dict[str, list[str]]:
    """Return the contradictions between values, by the path to correct first."""
    found: dict[str, list[str]] = {}
    for rule in table.rules:
        sentence = rule.breach(value)
        if sentence:
            found.setdefault(rule.paths[0], []).append(sentence)
    return found


def _from_text(setting: Setting[_T], text: str, *, name: str) -> _T:
    try:
        return setting.kind.from_text(text)
    except NotOfThisKind:
        raise SettingError(name, text, setting.kind.allowed) from None


def _no_such_setting(table: Table, path: str) -> str:
    elsewhere = next((setting for setting in table.settings if setting.path == path), None)
    if elsewhere is not None:
        return f"This setting can be set only in the environment, as {elsewhere.environment}."
    section = path.partition(".")[0]
    names = [setting.path for setting in table.stored if setting.section == section] or [
        setting.path for setting in table.stored
    ]
    return f"Unknown setting. Known settings: {', '.join(names)}."
