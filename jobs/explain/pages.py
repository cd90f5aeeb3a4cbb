"""The page that explains one address: the gates in order, in each job that knows it."""

from typing import Any, Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from jobs.explain.explaining import explain
from jobs.explain.screens import May, explained_screen
from nodes.database.clock import read_clock
from nodes.errors import Invalid, Unknown
from nodes.web.pages import page_for

page: Final = page_for("jobs.view_queueitem")


@page
@require_safe
def explained(request: HttpRequest) -> HttpResponse:
    """Show the form, and the gates of the address in it."""
    asked = {"url": request.GET.get("url", ""), "job": request.GET.get("job", "")}
    context: dict[str, object] = {"asked": asked, "problems": {}}
    if "url" in request.GET:
        now = read_clock()
        try:
            found = explain(asked["url"], job_id=_number(asked["job"]), now=now)
        except Invalid as invalid:
            context["problems"] = invalid.problems
        except Unknown as unknown:
            context["problems"] = {"job": [str(unknown)]}
        else:
            context["screen"] = explained_screen(found, may=_may(request), now=now)
    return render(request, "explain/explained.html", context)


def _may(request: HttpRequest) -> May:
    user: Any = request.user
    return user.has_perm  # type: ignore[no-any-return]


def _number(text: str) -> int | None:
    """Return the number of a job; None without one."""
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise Invalid({"job": [_("This must be the number of a job.")]})
    return int(text)
