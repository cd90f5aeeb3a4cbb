"""What makes a view a page: who may see it."""

from collections.abc import Callable

from django.contrib.auth.decorators import login_required, permission_required
from django.http import HttpResponse, HttpResponseBase


def page(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponseBase]:
    """A view for whoever is logged in and has a role; others are led to the login, or refused."""
    return login_required(permission_required("jobs.view_job", raise_exception=True)(view))
