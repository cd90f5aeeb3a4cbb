"""
The kinds of sources: the built-in ones, and those of plugins.

Plugins are entry points of the group `crawlctl.repository_connectors`, or named in the setting CRAWLCTL_CONNECTORS,
each as `package.module:OBJECT`. A kind that cannot be found is *missing*. That is not an error of the program, but its
jobs wait until it is back.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.conf import settings

from jobs.connectors.plugins import added
from jobs.connectors.repository.archive.kind import ARCHIVE
from jobs.connectors.repository.feed.kind import FEED
from jobs.connectors.repository.filesystem.kind import FILE_SYSTEM
from jobs.connectors.repository.kind import BadIdentifier, Checked, RepositoryKind, SourceSettings
from jobs.connectors.repository.web.kind import WEB
from jobs.models import RepositoryConnection
from nodes.errors import Invalid

_BUILT_IN: Final[tuple[RepositoryKind, ...]] = (WEB, FILE_SYSTEM, FEED, ARCHIVE)
_GROUP: Final = "crawlctl.repository_connectors"


class UnknownConnector(Invalid):
    """A connection names a connector that is not installed."""

    def __init__(self, name: str) -> None:
        self.name = name
        said = f"There is no repository connector {name!r}; there are: {', '.join(installed())}."
        super().__init__({"repository": [said]})


def installed() -> Mapping[str, RepositoryKind]:
    """Return all kinds by name, the built-in ones first."""
    return _load(settings.CRAWLCTL_CONNECTORS)


def find(name: str) -> RepositoryKind:
    """
    Return the kind of this name.

    Raises:
        UnknownConnector: the connector is not installed.
    """
    try:
        return installed()[name]
    except KeyError:
        raise UnknownConnector(name) from None


def is_installed(name: str) -> bool:
    return name in installed()


def namespaces_that_ask_first() -> list[str]:
    """Return the namespaces in which each bin starts a run with a single document."""
    return sorted({kind.bins.namespace for kind in installed().values() if kind.bins.asks_first})


def check(kind: RepositoryKind, source: SourceSettings) -> Checked:
    """
    Return the problems of a job's settings, by the names of fields.

    The declared fields are checked first: their names, types and bounds. If they are valid, the connector checks
    everything else.
    """
    problems = {
        **kind.configuration.problems(source.configuration),
        **kind.specification.problems(source.specification),
    }
    return Checked(problems) if problems else kind.check(source)


def check_specification(
    repository: RepositoryConnection, *, specification: Mapping[str, Any], seeds: Sequence[str]
) -> Checked:
    """
    Return the problems of a job's settings with this connection, and warnings about values that are probably
    unintended.

    Raises:
        UnknownConnector: the repository's connector is not installed.
    """
    source = SourceSettings(
        configuration=repository.configuration,
        specification=specification,
        seeds=seeds,
        is_confined=repository.is_confined,
    )
    return check(find(repository.connector), source)


def identifiers_meant(typed: str) -> list[str]:
    """
    Return the identifiers that an entered address can mean, one for each kind of source that can read it. If no kind
    can, return the address as typed.
    """
    meant = [typed]
    for kind in installed().values():
        try:
            meant.append(kind.canonical(typed))
        except BadIdentifier:
            continue
    return list(dict.fromkeys(meant))


@functools.cache
def _load(named: tuple[str, ...]) -> Mapping[str, RepositoryKind]:
    found = {kind.name: kind for kind in _BUILT_IN}
    for kind in added(group=_GROUP, named=named):
        found.setdefault(kind.name, kind)
    return found
