"""The pages for webmasters, which need no login."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from jobs.settings.webmasters import PAGES
from jobs.verbs.hosts import name_meant
from jobs.webmasters.figures import are_public, read_figures
from jobs.webmasters.screens import crawler, figures_shown
from nodes.errors import Invalid, TooSlow
from nodes.settings.running import current

# Longest name that is read (characters): the DNS allows 253, and a port follows.
LONGEST_NAME = 300


def public(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Open a page to every visitor, or to none if the pages of webmasters are off."""

    @wraps(view)
    def if_on(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not current()[PAGES]:
            raise Http404(_("The pages for webmasters are switched off."))
        return view(request, *args, **kwargs)

    return if_on


@public
@require_safe
def index(request: HttpRequest) -> HttpResponse:
    """Show the crawler and a field for a host; lead to the page of the host."""
    asked = request.GET.get("host", "")
    problems: list[str] = []
    if asked:
        try:
            return redirect(address_of(host_meant(asked)))
        except Invalid as invalid:
            problems = invalid.problems["name"]
    return render(
        request,
        "webmasters/index.html",
        {"crawler": crawler(), "asked": asked[:LONGEST_NAME], "problems": problems, "is_public": True},
        status=400 if problems else 200,
    )


@public
@require_safe
def host(request: HttpRequest, host: str) -> HttpResponse:
    """Show the page of one host. Its figures are shown only if the settings allow it, whether it is known or not."""
    try:
        name = host_meant(host)
    except Invalid as invalid:
        raise Http404(str(invalid)) from None
    if name != host:
        return redirect(address_of(name))
    context: dict[str, Any] = {"name": name, "crawler": crawler(), "is_public": True}
    try:
        if are_public(name):
            context["figures"] = figures_shown(read_figures(name))
            context["chart"] = context["figures"]["chart"]
    except TooSlow as slow:
        answer = render(request, "webmasters/host.html", {**context, "problem": str(slow)}, status=503)
        answer.headers["Retry-After"] = "10"
        return answer
    return render(request, "webmasters/host.html", context)


def host_meant(typed: str) -> str:
    """
    Return the stored name of the host that a visitor typed.

    Raises:
        Invalid: it is not a host name.
    """
    if len(typed) > LONGEST_NAME:
        raise Invalid({"name": [_("The name is too long.")]})
    return name_meant(typed)


def address_of(name: str) -> str:
    """Return the address of the page of a host."""
    return reverse("webmaster", args=[name])
