"""
Kinds of tasks: the functions that workers run, each with a schema of its arguments.

A kind comes from one of three places: `task_kinds` of an application's `AppConfig`, an entry point of the group
`crawlctl.tasks`, or the setting CRAWLCTL_TASKS. Each names `package.module:OBJECT`, which is a `Kind`, a `Listener` or
a list of these. A request names a kind of this registry, and never a function.
"""

import functools
import importlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Final

from django.apps import apps
from django.conf import settings
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from nodes.tasks.context import TaskContext
from nodes.tasks.listeners import Listener

logger = logging.getLogger(__name__)

_GROUP: Final = "crawlctl.tasks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """
    A kind of tasks.

    `run` gets the context of the attempt and the arguments, and returns a JSON value or None. `properties` are JSON
    schemas of the arguments, `required` names the arguments without a default. `retry_policy` is the policy of
    tasks that name none. If `is_internal`, only crawlctl makes tasks of it.
    """

    name: str
    title: str
    run: Callable[[TaskContext, Mapping[str, Any]], object]
    properties: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    retry_policy: Mapping[str, Any] = field(default_factory=lambda: {"policy": "never"})
    is_internal: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        return {
            "type": "object",
            "properties": dict(self.properties),
            "required": list(self.required),
            "additionalProperties": False,
        }

    def problems(self, arguments: object) -> dict[str, list[str]]:
        """Return the problems of these arguments, by the names of the arguments."""
        found: dict[str, list[str]] = {}
        if isinstance(arguments, Mapping):
            known = ", ".join(self.properties) or "none"
            found = {
                str(name): [f"Unknown argument; known: {known}."] for name in arguments if name not in self.properties
            }
            found |= {name: ["This argument is required."] for name in self.required if name not in arguments}
        if found:
            return found
        error = best_match(Draft202012Validator(self.schema).iter_errors(arguments))
        if error is None:
            return {}
        return {".".join(map(str, error.absolute_path)): [f"{error.message}."]}


class UnknownKind(Exception):
    """No kind of this name is installed."""

    def __init__(self, name: str) -> None:
        self.name = name
        known = ", ".join(kind.name for kind in offered())
        super().__init__(f"There is no kind of task {name!r}. Choose one of: {known}.")


def installed() -> Mapping[str, Kind]:
    """Return all kinds by name, those of the program first."""
    return _load(tuple(settings.CRAWLCTL_TASKS))[0]


def offered() -> list[Kind]:
    """Return the kinds whose tasks people can make."""
    return [kind for kind in installed().values() if not kind.is_internal]


def listeners() -> tuple[Listener, ...]:
    """Return the installed listeners. They come from the same places as kinds."""
    return _load(tuple(settings.CRAWLCTL_TASKS))[1]


def find(name: str) -> Kind:
    """
    Return the kind of this name.

    Raises:
        UnknownKind: no installed kind has this name.
    """
    try:
        return installed()[name]
    except KeyError:
        raise UnknownKind(name) from None


@functools.cache
def _load(named: tuple[str, ...]) -> tuple[Mapping[str, Kind], tuple[Listener, ...]]:
    found: dict[str, Kind] = {}
    found_listeners: list[Listener] = []
    of_applications = (str(app.task_kinds) for app in apps.get_app_configs() if hasattr(app, "task_kinds"))
    for place in (*of_applications, *(entry.value for entry in entry_points(group=_GROUP)), *named):
        module, _, name = place.partition(":")
        try:
            added = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            logger.warning("the kind of task %s is not installed: %s", place, error)
            continue
        for one in added if isinstance(added, tuple | list) else (added,):
            if isinstance(one, Listener):
                found_listeners.append(one)
            else:
                found.setdefault(one.name, one)
    return found, tuple(found_listeners)
