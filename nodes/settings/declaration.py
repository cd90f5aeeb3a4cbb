"""
A table of settings: what can be set, and how a value of each is said.

A setting has a path of two words, by which the settings JSON and the command line name it, and a variable
of the environment. Some can be said by the environment only: what a process needs before it has a
database, and secrets, which never stand in the settings JSON.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

from nodes.settings.kinds import Kind, NotOfThisKind

_T = TypeVar("_T")


class Applies(StrEnum):
    """When a new value of the settings JSON counts for a process that runs."""

    AT_ONCE = "at once"
    AT_NEXT_START = "at next start"
    NEVER = "by environment only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(Generic[_T]):
    """One row of the table. `meaning` is a sentence or two; `default` counts where nobody said anything."""

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
        """Whether the settings JSON and the command line may say it."""
        return self.applies != Applies.NEVER

    def as_json(self, value: object) -> object:
        """A value of this setting as JSON has it."""
        return self.kind.as_json(value)  # type: ignore[arg-type]  # values are looked up by their setting


# What was said in one place, by path.
Said = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What must hold between settings. `breach` returns a sentence, or '' where it holds."""

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
        """Those that the settings JSON may hold."""
        return tuple(setting for setting in self.settings if setting.can_be_stored)


class SettingError(ValueError):
    """A variable or an option holds a value that its setting cannot have."""

    def __init__(self, name: str, value: str, expected: str) -> None:
        self.name, self.value, self.expected = name, value, expected
        super().__init__(f"{name} is {value!r}: it must be {expected}")


class InvalidSettings(Exception):
    """Settings that cannot be meant. `problems` has sentences by the path of what is wrong."""

    def __init__(self, problems: Mapping[str, list[str]]) -> None:
        self.problems: Final = problems
        super().__init__(" ".join(f"{path}: {' '.join(said)}" for path, said in problems.items()))


def read_environment(table: Table, environment: Mapping[str, str]) -> Said:
    """
    Return what the environment says.

    A variable that is unset or empty says nothing: compose files and unit files can often only write
    `NAME=`, not leave the name out.

    Raises:
        SettingError: a variable holds what its setting cannot be.
    """
    return {
        setting.path: _from_text(setting, text, name=setting.environment)
        for setting in table.settings
        if (text := environment.get(setting.environment))
    }


def read_options(table: Table, options: Iterable[str]) -> Said:
    """
    Return what options of a command line say, each `PATH=VALUE`; of a path that comes twice the last.

    Raises:
        InvalidSettings: there is no such setting, or it is not to be set so.
        SettingError: its value cannot be.
    """
    said = {}
    for option in options:
        path, _equals, text = option.partition("=")
        setting = next((setting for setting in table.stored if setting.path == path), None)
        if setting is None:
            raise InvalidSettings({path: [_no_such_setting(table, path)]})
        said[path] = _from_text(setting, text, name=path)
    return said


def read_document(table: Table, document: object) -> Said:
    """
    Return what a settings JSON says, sections of settings by name: the whole of it, or nothing.

    Raises:
        InvalidSettings: it has unknown keys, values that cannot be, or what contradicts itself.
    """
    said, problems = _read(table, document)
    problems = problems or breaches(table, lambda setting: said.get(setting.path, setting.default))
    if problems:
        raise InvalidSettings(problems)
    return said


def known_part(table: Table, document: object) -> Said:
    """What this program understands of a settings JSON that perhaps a newer one stored."""
    said, _problems = _read(table, document)
    return said


def _read(table: Table, document: object) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """What a settings JSON says, and by path what cannot be understood of it."""
    if not isinstance(document, Mapping):
        return {}, {"settings": ["This must be an object of sections, such as cluster and worker."]}
    sections = sorted({setting.section for setting in table.stored})
    known = {setting.path: setting for setting in table.stored}
    problems: dict[str, list[str]] = {}
    said: dict[str, Any] = {}
    for section, members in document.items():
        if section not in sections:
            problems[section] = [f"There is no such section; there are: {', '.join(sections)}."]
        elif not isinstance(members, Mapping):
            problems[section] = ["This must be an object of settings."]
        else:
            for name, value in members.items():
                path = f"{section}.{name}"
                try:
                    said[path] = known[path].kind.from_json(value)
                except KeyError:
                    problems[path] = [_no_such_setting(table, path)]
                except NotOfThisKind:
                    problems[path] = [f"This must be {known[path].kind.allowed}."]
    return said, problems


def as_document(table: Table, said: Said) -> dict[str, dict[str, object]]:
    """The settings JSON that says this, in the order of the table."""
    document: dict[str, dict[str, object]] = {}
    for setting in table.stored:
        if setting.path in said:
            document.setdefault(setting.section, {})[setting.name] = setting.as_json(said[setting.path])
    return document


def breaches(table: Table, value: Callable[[Setting[Any]], Any]) -> dict[str, list[str]]:
    """What contradicts itself among values, by the path at which to begin."""
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
        return f"This is said by the environment only, as {elsewhere.environment}."
    section = path.partition(".")[0]
    names = [setting.path for setting in table.stored if setting.section == section] or [
        setting.path for setting in table.stored
    ]
    return f"There is no such setting; there are: {', '.join(names)}."
