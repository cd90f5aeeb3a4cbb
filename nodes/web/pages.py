"""The conditions of every page: the login, and the permissions to see it and to use its actions."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from django.contrib.auth.decorators import login_required, permission_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils.translation import gettext as _

from nodes.database.shared_results import Moment
from nodes.errors import Unknown

# Methods of requests that change nothing. Facts that such a request has read stay valid until its answer.
_SAFE: Final = frozenset({"GET", "HEAD"})


def page_for(permission: str) -> Callable[[Callable[..., HttpResponseBase]], Callable[..., HttpResponseBase]]:
    """
    Return a decorator of views for users with this permission.

    Visitors are led to the login, and users without the permission are refused. A page reads each fact only once.
    An unknown object is a page that does not exist.
    """

    def page(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        @wraps(view)
        def at_one_moment(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            try:
                if request.method not in _SAFE:
                    return view(request, *args, **kwargs)
                with Moment().present():
                    return view(request, *args, **kwargs)
            except Unknown as unknown:
                raise Http404(str(unknown)) from None

        return login_required(permission_required(permission, raise_exception=True)(at_one_moment))

    return page


def user_with_permission(request: HttpRequest, permission: str) -> str:
    """
    Return the user's name, for an action that needs this permission in addition to the one for the page.

    Raises:
        PermissionDenied: the user lacks the permission.
    """
    user: Any = request.user
    if not user.has_perm(permission):
        raise PermissionDenied(_("Your role does not permit this action. Ask an administrator."))
    return str(user.get_username())
