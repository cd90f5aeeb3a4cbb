"""
The kinds of authorities and mappers: the built-in ones, and those of plugins.

Plugins are entry points of the group `crawlctl.authority_connectors`, or named in the setting CRAWLCTL_AUTHORITIES, each
as `package.module:OBJECT` for an `AuthorityKind` or a `MapperKind`.
"""

import functools
from collections.abc import Mapping
from typing import Final

from django.conf import settings

from jobs.connectors.authority import expression, nothing, users_file
from jobs.connectors.authority.kind import AuthorityKind, MapperKind
from jobs.connectors.authority.ldap import kinds as ldap
from jobs.connectors.authority.sql import SQL
from jobs.connectors.plugins import added

_BUILT_IN: Final = (
    ldap.AUTHORITY,
    SQL,
    users_file.FILE,
    nothing.AUTHORITY,
    expression.MAPPER,
    ldap.MAPPER,
    nothing.MAPPER,
)
_GROUP: Final = "crawlctl.authority_connectors"


def authorities() -> Mapping[str, AuthorityKind]:
    """Return the kinds of authorities by name, the built-in ones first."""
    return {kind.name: kind for kind in _load(settings.CRAWLCTL_AUTHORITIES) if isinstance(kind, AuthorityKind)}


def mappers() -> Mapping[str, MapperKind]:
    """Return the kinds of mappers by name, the built-in ones first."""
    return {kind.name: kind for kind in _load(settings.CRAWLCTL_AUTHORITIES) if isinstance(kind, MapperKind)}


@functools.cache
def _load(named: tuple[str, ...]) -> tuple[AuthorityKind | MapperKind, ...]:
    found: dict[tuple[type, str], AuthorityKind | MapperKind] = {(type(kind), kind.name): kind for kind in _BUILT_IN}
    for kind in added(group=_GROUP, named=named):
        found.setdefault((type(kind), kind.name), kind)
    return tuple(found.values())
