"""
The kinds of transformations: the built-in ones, and those of plugins.

Plugins are entry points of the group `crawlctl.transformation_connectors`, or named in the setting
CRAWLCTL_TRANSFORMATIONS, each as `package.module:OBJECT`.
"""

import functools
from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings

from jobs.connectors.plugins import added
from jobs.connectors.transformation.adjust import ADJUST
from jobs.connectors.transformation.allowed import ALLOWED
from jobs.connectors.transformation.base import Transformation, TransformationKind
from jobs.connectors.transformation.extract import EXTRACT
from jobs.connectors.transformation.html import HTML
from jobs.connectors.transformation.language import LANGUAGE
from jobs.connectors.transformation.nothing import NOTHING
from jobs.connectors.transformation.split import SPLIT
from jobs.connectors.transformation.tika import TIKA

_BUILT_IN: Final[tuple[TransformationKind, ...]] = (
    ALLOWED,
    ADJUST,
    HTML,
    EXTRACT,
    LANGUAGE,
    SPLIT,
    TIKA,
    NOTHING,
)
_GROUP: Final = "crawlctl.transformation_connectors"


class UnknownKind(ValueError):
    """A stage names a kind that is not installed."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"There is no kind of stages {name!r}. Choose one of: {', '.join(installed())}.")


def installed() -> Mapping[str, TransformationKind]:
    """Return all kinds by name, the built-in ones first."""
    return _load(settings.CRAWLCTL_TRANSFORMATIONS)


def find(name: str) -> TransformationKind:
    """
    Return the kind of this name.

    Raises:
        UnknownKind: no installed kind has this name.
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


@functools.cache
def _load(named: tuple[str, ...]) -> Mapping[str, TransformationKind]:
    found = {kind.name: kind for kind in _BUILT_IN}
    for kind in added(group=_GROUP, named=named):
        found.setdefault(kind.name, kind)
    return found
