"""
The kinds of transformations: the built-in ones, and those of plugins.

Plugins are entry points of the group `crawlctl.transformation_connectors`, or named in the setting
CRAWLCTL_TRANSFORMATIONS, each as `package.module:OBJECT`.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.conf import settings

from jobs.connectors.plugins import added
from jobs.connectors.transformation.base import Item, Refused, Transformation, TransformationKind
from jobs.connectors.transformation.nothing import NOTHING

_BUILT_IN: Final[tuple[TransformationKind, ...]] = (NOTHING,)
_GROUP: Final = "crawlctl.transformation_connectors"
# Transformations that a process keeps open.
_MOST_OPEN: Final = 256


class UnknownKind(ValueError):
    """A stage names a kind that is not installed."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"There is no kind of stages {name!r}; there are {', '.join(installed())}.")


def installed() -> Mapping[str, TransformationKind]:
    """Return all kinds by name, the built-in ones first."""
    return _load(settings.CRAWLCTL_TRANSFORMATIONS)


def find(name: str) -> TransformationKind:
    """
    Return the kind of this name.

    Raises:
        UnknownKind: it is not installed.
    """
    try:
        return installed()[name]
    except KeyError:
        raise UnknownKind(name) from None


def open_stage(kind: str, given: Mapping[str, Any]) -> Transformation:
    """
    Return the transformation of a stage.

    Raises:
        UnknownKind: its kind is not installed.
        BadSpecification: the settings are invalid.
    """
    found = find(kind)
    return found.open(found.settings.read(given))


def transform_in_child(kind: str, given_as_json: str, item: Item) -> Sequence[Item] | Refused:
    """Transform an item in a child process, which opens each stage once."""
    return _opened(kind, given_as_json).transform(item)


@functools.lru_cache(maxsize=_MOST_OPEN)
def _opened(kind: str, given_as_json: str) -> Transformation:
    return open_stage(kind, json.loads(given_as_json))


@functools.cache
def _load(named: tuple[str, ...]) -> Mapping[str, TransformationKind]:
    found = {kind.name: kind for kind in _BUILT_IN}
    for kind in added(group=_GROUP, named=named):
        found.setdefault(kind.name, kind)
    return found
