"""
Permissions of the API: every view names them, and an action without a permission is closed.

The framework imports this module while it imports its views, so this module must not import those.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from rest_framework.permissions import BasePermission
from rest_framework.request import Request


class View(Protocol):
    """The part of a view that this module needs."""

    @property
    def allowed_methods(self) -> Sequence[str]: ...


class NamedPermission(BasePermission):
    """
    A view names, in `permissions_needed`, the Django permission of each of its actions.

    An action that is not named there is refused, even for a superuser. So a new action stays closed until its author
    has chosen a permission.
    """

    def has_permission(self, request: Request, view: View) -> bool:
        if not request.user.is_authenticated:
            return False
        if request.method not in view.allowed_methods:
            # The view has no such method. Its answer 405 says more than a refusal.
            return True
        if request.method == "OPTIONS":
            # The answer names the methods of an address, and no stored data.
            return True
        needed: Mapping[str, str] = getattr(view, "permissions_needed", {})
        action = getattr(view, "action", None) or str(request.method).lower().replace("head", "get")
        permission = needed.get(action)
        return permission is not None and request.user.has_perm(permission)
