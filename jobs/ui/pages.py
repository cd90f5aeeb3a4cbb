"""What makes a view a page: who may see it, and who may do what it offers."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from django.contrib.auth.decorators import login_required, permission_required
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.utils.translation import gettext as _

from jobs.queries.moment import Moment

# Requests that change nothing, so that what was read stays true until their answer.
_SAFE: Final = frozenset({"GET", "HEAD"})


def page(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponseBase]:
    """A view for users who have a role; others are led to the login, or refused. One page reads each thing once."""

    @wraps(view)
    def at_one_moment(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method not in _SAFE:
            return view(request, *args, **kwargs)
        with Moment().present():
            return view(request, *args, **kwargs)

    return login_required(permission_required("jobs.view_job", raise_exception=True)(at_one_moment))


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
