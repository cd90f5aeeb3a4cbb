"""What makes a view a page: who may see it, and who may do what it offers."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth.decorators import login_required, permission_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.translation import gettext as _


def page(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponseBase]:
    """A view for whoever is logged in and has a role; others are led to the login, or refused."""
    return login_required(permission_required("jobs.view_job", raise_exception=True)(view))


def name_of_who_may(request: HttpRequest, permission: str) -> str:
    """
    The name of who asks for something that not everybody may do who sees the page.

    Raises:
        PermissionDenied: he may not.
    """
    user: Any = request.user
    if not user.has_perm(permission):
        raise PermissionDenied(_("Your role may not do this."))
    return str(user.get_username())
