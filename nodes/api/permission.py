"""
Who may do what through the API: every view says it, and what it does not say nobody may.

The framework loads this module while it loads its views, so it must not ask for those.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from rest_framework.permissions import BasePermission
from rest_framework.request import Request


class View(Protocol):
    """What is asked of any view."""

    @property
    def allowed_methods(self) -> Sequence[str]: ...


class NamedPermission(BasePermission):
    """
    A view names, in `permissions_needed`, the Django permission of each of its actions.

    An action that is not named there is refused even to a superuser, so that a new one is closed
    until somebody has decided whom it is for.
    """

    def has_permission(self, request: Request, view: View) -> bool:
        if not request.user.is_authenticated:
            return False
        if request.method not in view.allowed_methods:
            # The view answers 405, which says more than a refusal.
            return True
        if request.method == "OPTIONS":
            # The answer names the methods of an address, and nothing that is stored.
            return True
        needed: Mapping[str, str] = getattr(view, "permissions_needed", {})
        action = getattr(view, "action", None) or str(request.method).lower().replace("head", "get")
        permission = needed.get(action)
        return permission is not None and request.user.has_perm(permission)
