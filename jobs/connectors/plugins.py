"""Connectors of plugins: entry points of a group, or objects that a setting names as `package.module:OBJECT`."""

import importlib
import logging
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from typing import Any

logger = logging.getLogger(__name__)


def added(*, group: str, named: Iterable[str]) -> Iterator[Any]:
    """Yield the objects of plugins. An object that cannot be imported is skipped, with a warning in the log."""
    for place in (*(entry.value for entry in entry_points(group=group)), *named):
        module, _, name = place.partition(":")
        try:
            yield getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            logger.warning("the connector %s is not installed: %s", place, error)
