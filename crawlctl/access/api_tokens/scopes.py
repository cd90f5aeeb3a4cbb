"""Scopes of API tokens: the roles, without the permissions to manage tokens."""

from collections.abc import Mapping
from typing import Any, Final

from crawlctl.access.roles import ROLES

# Permissions of each scope, the narrowest first.
SCOPES: Final[Mapping[str, frozenset[str]]] = {
    role: frozenset(name for name in permissions if not name.endswith("_apitoken"))
    for role, permissions in ROLES.items()
}


def scopes_of(user: Any) -> list[str]:  # noqa: ANN401 (a user of any kind)
    """Return the scopes that this user may give to a token, the narrowest first."""
    return [scope for scope, permissions in SCOPES.items() if user.has_perms(permissions)]
